"""W on fedamd: its usual run, with the engine and the oracle it would choose by itself.

The data is read by fedamd; it is the same, dealt out in the same way. The whole round loop runs: addressed draws,
accounting of costs, checks of replies, records.
"""

from workload import COHORT, RATE, SMALL, STEPS, Stopwatch, arguments

import fedamd

_, rounds, result = arguments()
watch = Stopwatch()
fedamd.run(
    data={"name": "fashion-mnist"},
    clients=100,
    cohort=COHORT,
    rounds=rounds,
    engine="vector",
    oracle="native",
    algorithm={"name": "fedavg", "eta_l": RATE, "steps": STEPS, "small_batch": SMALL},
    listen=lambda _, record: watch.round_done(record.accuracy) if record.round >= 0 else None,
)
watch.write(result, fedamd.__version__)
