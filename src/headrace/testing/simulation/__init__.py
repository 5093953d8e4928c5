"""The real runtime in virtual time: seeds decide what happens, and a checker reads the history.

python -m headrace.testing.simulation --seeds 200
python -m headrace.testing.simulation --seed 4711            one seed, with what happened in it
python -m headrace.testing.simulation --seeds 200 --bug no_fence_check
"""

from headrace.testing.simulation.seeds import Report, run_seeds
from headrace.testing.simulation.world import Outcome, SimulatedParts, run_seed

__all__ = ["Outcome", "SimulatedParts", "Report", "run_seed", "run_seeds"]
