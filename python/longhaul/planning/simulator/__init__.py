"""The planning model: what compute a network of nodes delivers, with assumed or measured factors (docs/simulator.md).

    answer = simulate("planning/scenarios/nodes.toml", ["network.nodes=500"])
    print(answer.text())

Importing this imports no NumPy; running it does.
"""

from dataclasses import dataclass

from longhaul import toml
from longhaul.refusal import Refused, need


@dataclass
class Answer:
    """What a scenario file asks for, computed."""

    results: object  # results.Results: the rows
    uncertain: list  # spreads.Uncertain of each row, where [assume] has ranges
    search: object = None  # spreads.BreakEven
    turns: tuple = ()  # spreads.Turn of each scenario, where [break_even] is asked
    plan: object = None  # calibration.Plan
    attributions: tuple = ()  # conclusions.Attribution: every conclusion, assumed and measured
    numbers: tuple = ()  # conclusions.MeasuredNumber: the first scenarios with measured factors

    @property
    def file(self):
        return self.results.rows.file

    def text(self):
        from longhaul.planning.simulator import conclusions, results, spreads  # pylint: disable=import-outside-toplevel
        text = f"{results.profile_text(self.file)}\n{self.results.text()}"
        if self.search:
            text += f"\n{spreads.break_even_text(self.file, self.search, self.turns)}"
        if self.uncertain:
            text += f"\n{spreads.uncertainty_text(self.file, self.uncertain)}"
        if self.plan:
            most = conclusions.MOST_MEASURED
            first = f", the first {most}" if self.results.rows.n >= most else ""
            text += f"\n{conclusions.conclusions_text(self.plan, self.attributions)}\nThe scenarios of this file{first}, " \
                    f"with assumed and with measured factors:\n{conclusions.measured_table(self.numbers)}"
        return text

    def json(self):
        """The document longhaul.simulate/1 in parts."""
        from longhaul.planning.simulator import conclusions, spreads  # pylint: disable=import-outside-toplevel
        more = {}
        if self.plan:
            more["calibration"] = conclusions.calibration_json(self.plan, self.attributions, self.numbers)
        if self.uncertain:
            more["uncertainty"] = spreads.uncertainty_json(self.file, self.uncertain)
        if self.search:
            more["break_even"] = spreads.break_even_json(self.file, self.search, self.turns)
        return self.results.json(more)


def simulate(path, sets=(), calibration=None, codec="", extrapolate=False, wants=(), price=None):
    """Computes a scenario file.

    Args:
        path: The file.
        sets: Overrides, "network.nodes=500".
        calibration: A file that `longhaul report` wrote: its factors in place of the assumed ones.
        codec: Which of its codecs.
        extrapolate: Scale the measured alpha of eta_H to other sizes.
        price: A document of `longhaul price --json`, of a model like the user's: what boundaries cost untrained, for models
            beyond ten times the calibration's size.
        wants: Of "ranges" and "break-even" what the file must have.
    """
    need("numpy", "longhaul simulate")
    from longhaul.planning.simulator import (  # pylint: disable=import-outside-toplevel
        calibration as measured, conclusions, results, scenario_file, spreads)
    root = toml.read_file(path, sets)
    file = scenario_file.read(root)
    plan = None
    if calibration or price:
        factors = measured.read(calibration) if calibration else measured.Calibration("", "", 1.0)
        if price:
            factors.price_of_a_boundary, parameters, factors.price_from = measured.read_price(price, codec)
            factors.parameters = factors.parameters if calibration else max(1.0, parameters)
        plan = measured.Plan(factors, codec, extrapolate)
    if file.uncertain and plan:
        raise Refused(f"{file.where}: [assume] has a range and --calibration has intervals of its own; give one of the two")
    if not file.uncertain and "ranges" in wants:
        raise Refused(f"{file.where}: --spread, --tornado and --plots want a range [low, mid, high] in [assume], and it has "
                      "none")
    search = spreads.read_break_even(root, file)
    if not search and "break-even" in wants:
        raise Refused(f"{file.where}: --break-even wants a table [break_even], and it has none")
    turns = spreads.find_break_even(file, search) if search else ()
    answer = Answer(results.Results(file), [], search, turns, plan)
    rows = answer.results.rows
    if file.uncertain:
        answer.uncertain = spreads.uncertainty(rows)
    if plan:
        answer.attributions = conclusions.attribute(plan)
        names = [results.name_of(file, rows.at(i)) for i in range(min(rows.n, conclusions.MOST_MEASURED))]
        answer.numbers = conclusions.measure_scenarios(plan, rows, names)
    return answer
