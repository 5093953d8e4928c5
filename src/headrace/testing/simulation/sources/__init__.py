"""The worker of a source in virtual time: seeds decide what happens, and a checker reads the history.

python -m headrace.testing.simulation --world sources --seeds 200
"""

from headrace.testing.simulation.sources.world import KINDS, SourceParts, run_source_seed, run_source_seeds

__all__ = ["KINDS", "SourceParts", "run_source_seed", "run_source_seeds"]
