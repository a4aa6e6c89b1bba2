"""What a campaign's record says, on numpy and SciPy; formulas in docs/estimates.md.

    interval     t, Holm, power, medians; Measured with `around`, `mapped`, `widened`, `cut_below`
    curve        the reference curve: fit_reference(runs) -> ReferenceCurve, MonotoneCubic, curve_error
    efficiency   eta and q of arms: estimate_arm, estimate_joint, estimate_contrast, ln_eta_by_seed, verdicts
    regression   fit_over_seeds: least squares of a model whose parameters get intervals over seeds
    campaign     analyse(record, experiment) -> CampaignAnalysis: arms, families, identities, findings
    changes      in what two resolved specs differ, and what of it a loss can be booked on
    findings     what families say together: directions, position, rates, tests named beforehand, times to a loss
    depth        M1 and M4 over the same arms: compare_depths
    diloco       factors of M groups, H inner steps and outer codecs
    pseudo_gradients  cosines of successive mean outer deltas: turns(rows of outer_deltas)
    contrast     a weighted sum of ln eta over arms
    rows         estimates(analysis) -> rows of the record's table `estimates`
    text         campaign_table, campaign_summary, findings_tables, planned_depths
    calibration  calibration_json(analysis): schema longhaul.calibration/2
    forecast     what a design can resolve, before its first run
    advice       what makes losses worth less than they look
    loss_file    a published losses.csv

Failures of one estimate are NotEstimated, whose text stands in the table in its place.
"""


class NotEstimated(Exception):
    """Why there is no such estimate."""
