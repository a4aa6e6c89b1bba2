"""What groups_test.sh expects of the record of workers without a lab, beside that of one process.

usage: groups_record.py RECORD ALONE
"""
import sqlite3
import sys

# Of the members of every round, H = 4: how far a lost group came is no part of the training.
BITS = """SELECT step, group_index, stage, loss_nat, parameter_hash FROM steps JOIN rounds
  ON round = (step + 3) / 4 AND ' ' || members || ' ' LIKE '% ' || group_index || ' %' ORDER BY 1, 2, 3"""
ROUNDS = "SELECT round, members, joiners, lost FROM rounds ORDER BY round"

KILLS = "SELECT step, place, recovered_step FROM faults WHERE what = 'kill' ORDER BY step, place"

workers, alone = (sqlite3.connect(f"{folder}/longhaul.sqlite") for folder in sys.argv[1:])


def same(what, sql, at_least):
    found, expected = workers.execute(sql).fetchall(), alone.execute(sql).fetchall()
    if found != expected or len(found) < at_least:
        differ = [pair for pair in zip(found, expected) if pair[0] != pair[1]]
        sys.exit(f"{what}: {len(found)} rows, in one process {len(expected)}; at least {at_least} wanted; {differ[:6]}")


same("rounds", ROUNDS, 6)
same("bits", BITS, 100)
same("kills", KILLS, 4)
joins = dict(workers.execute("SELECT key, value FROM run_facts WHERE key LIKE 'joined_after_step_%'").fetchall())
for step, rank, givers in [(4, 2, "2"), (4, 3, "2"), (8, 0, "12"), (8, 1, "12"), (16, 4, "01"), (16, 5, "01")]:
    said = joins.get(f"joined_after_step_{step}_rank_{rank}", "did not join")
    for giver in givers:
        if f"group {giver} " not in said or f"group {giver} 0" in said:
            sys.exit(f"rank {rank} after step {step}: {said}")
lost = workers.execute("SELECT COUNT(*) FROM faults WHERE what = 'lost'").fetchone()[0]
if lost:
    sys.exit(f"{lost} losses that the script does not know of")
for recovery_s, in workers.execute("SELECT recovery_s FROM faults"):
    if recovery_s is not None:
        sys.exit(f"nobody timed how long a group was away, and the record says {recovery_s} s")
status, reason = workers.execute("SELECT status, reason FROM runs").fetchone()
if status != "ok":
    sys.exit(f"{status}: {reason}")
print(f"{len(joins)} joins, {workers.execute('SELECT COUNT(*) FROM faults').fetchone()[0]} faults")
