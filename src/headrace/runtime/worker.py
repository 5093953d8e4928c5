"""The worker: one loop, claim → handle → settle, in which the next claim and the last settlement run beside the work.

    worker = Worker(store, [flow])
    await worker.run()          # until somebody calls worker.drain()

Everything it does may be cut off at any point: what it held comes back to others when its hold has passed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, cast

from headrace.core.claims import Claim, Grant, Want
from headrace.core.errors import Conflict, HeadraceError, InvalidFlow
from headrace.ports.schedules import ScheduledStore
from headrace.ports.transactions import OpenTransactions
from headrace.runtime.alone import run_alone
from headrace.runtime.bracket import Opener
from headrace.runtime.context import OPEN
from headrace.runtime.crew import Crew
from headrace.runtime.flow import Flow, Stage, check_flow
from headrace.runtime.heart import Heart
from headrace.runtime.list_crew import ListCrew
from headrace.runtime.observe import Observer
from headrace.runtime.open_crew import OpenCrew, OpenListCrew, check_transactions
from headrace.runtime.scheduler import Scheduler
from headrace.runtime.seams import Seams
from headrace.runtime.settler import Outage, Settler
from headrace.runtime.slices import Slice
from headrace.runtime.sweeper import sweep_for_ever
from headrace.runtime.watch import Ends, Watch
from headrace.runtime.yard import Why, WorkerOptions, Yard

WAIT_S_MIN = 0.01

__all__ = ["Worker", "WorkerOptions"]


class Worker:
    """Runs the stages of some flows on one store; `run` is for one use.

    Give each process one: a suspect is the only thing its worker does, but a second worker would not know.
    """

    def __init__(
        self,
        store: ScheduledStore,
        flows: Sequence[Flow],
        seams: Seams | None = None,
        options: WorkerOptions | None = None,
    ) -> None:
        seams, options = seams or Seams(), options or WorkerOptions()
        self.id = options.id or seams.identity.new()
        self.observer = Observer(self.id)
        self._store = store
        self._yard = Yard(seams, options, self.observer)
        self._settler = Settler(store, self._yard, self._drop)
        self._crews = {(stage.flow, stage.name): crew for stage, crew in self._make_crews(flows)}
        self._scheduler = Scheduler(store.schedules, flows, self.id, self._yard)
        self._heart = Heart(store, self.id, self._yard, self._lost)
        self._watch = Watch(self._yard, list(self._crews.values()), self._settler, Ends(self._drop, self._give_up))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._gave_up: HeadraceError | None = None

    def _make_crews(self, flows: Sequence[Flow]) -> list[tuple[Stage, Crew]]:
        for flow in flows:
            check_flow(flow)
        names = [flow.name for flow in flows]
        for name in names:
            if names.count(name) > 1:
                raise InvalidFlow(f"two flows are called {name!r}")
        crews: list[tuple[Stage, Crew]] = []
        for flow in flows:
            _ = flow.graph  # a flow that cannot work is refused here
            for stage in flow.stages.values():
                crews.append((stage, self._make_crew(stage, flow)))
        if not crews:
            raise InvalidFlow("a worker needs a flow with at least one stage that has a handler")
        check_transactions(self._store, [stage for stage, _ in crews])
        return crews

    def _make_crew(self, stage: Stage, flow: Flow) -> Crew:
        if stage.transaction == OPEN:
            opener = Opener(cast(OpenTransactions, self._store), self._settler, self._yard)
            make_open = OpenListCrew if stage.shape.takes_list else OpenCrew
            return make_open(stage, flow.stages, self._yard, opener)
        make = ListCrew if stage.shape.takes_list else Crew
        return make(stage, flow.stages, self._yard, self._settler)

    async def run(self) -> None:
        """Work until drained or stopped. Raises what made going on impossible, such as a schema that does not match."""
        self._loop = asyncio.get_running_loop()
        unsubscribe = self._store.on_wake(self._ring)
        self._heart.start()
        self._yard.moved()
        services = [
            self._serve(self._claim_for_ever()),
            self._serve(self._settler.run()),
            self._serve(self._watch.run()),
            self._serve(sweep_for_ever(self._store, self._yard)),
            self._serve(self._scheduler.run()),
        ]
        self.observer.event("worker.started", stages=len(self._crews))
        try:
            await self._until_over(services[0])
        finally:
            self._yard.over = True
            unsubscribe()
            self._heart.stop()
            lanes = [lane.task for crew in self._crews.values() for lane in crew.lanes if lane.task is not None]
            for task in (*services, *lanes):
                task.cancel()
            self._settler.close()
            await asyncio.wait((*services, *lanes), timeout=self._yard.options.grace_s)
            await self._heart.say_goodbye()
            self.observer.event("worker.ended", counts=dict(self.observer.counts))

    async def _until_over(self, claiming: asyncio.Task[None]) -> None:
        yard = self._yard
        await yard.until(lambda: yard.failure is not None or (yard.draining and claiming.done() and not yard.held))
        failure = yard.failure or self._gave_up
        if failure is not None:
            raise failure

    def _serve(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(self._served)
        return task

    def _served(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._yard.fail(error)
        self._yard.tell()

    def drain(self) -> None:
        """Claim nothing more, give back what was not started, finish and settle what was; then `run` returns."""
        self._yard.draining = True
        for crew in self._crews.values():
            crew.release()
        self._yard.bell.set()
        self._yard.tell()

    def stop_now(self) -> None:
        """Cancel what runs and give everything unsettled back; no attempt is spent. Then `run` returns."""
        self._yard.stopping = True
        self.drain()
        for crew in self._crews.values():
            crew.interrupt(Why.STOP)

    def _give_up(self, error: HeadraceError) -> None:
        """Drain, and let `run` raise this error then."""
        if self._gave_up is None:
            self._gave_up = error
            self.observer.event("worker.gave_up", detail=str(error))
            self.drain()

    @property
    def handling_s_max(self) -> float:
        """How long a handler may hold the interpreter, as foreign code can: nothing of this process can end it."""
        return max(crew.stage.timeout_s for crew in self._crews.values())

    def still_s(self) -> float:
        """For how long it has not got on, though it could; any thread may ask.

        It gets on while the store answers, or fails to: a worker with a free lane asks it all the time. It also does
        while a handler runs, for as long as it may: then the watch ends it, unless the event loop itself is stuck.
        """
        yard = self._yard
        if any(lane.handling for crew in self._crews.values() for lane in tuple(crew.lanes)):
            since, patience_s = max(yard.moved_at, self._watch.looked_at), self.handling_s_max
        else:
            since, patience_s = yard.moved_at, max(crew.stage.batch_wait_s for crew in self._crews.values())
        return max(0.0, yard.now() - since - patience_s)

    def _ring(self) -> None:
        """Work may be available; called from any thread."""
        self._from_outside(self._yard.ring)

    def _lost(self, fences: frozenset[int]) -> None:
        self._from_outside(lambda: self._drop_all(fences))

    def _from_outside(self, call: Callable[[], object]) -> None:
        try:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(call)
        except RuntimeError:
            # The loop was closed in this moment: there is nobody left to tell.
            return

    def _drop_all(self, fences: frozenset[int]) -> None:
        for fence in fences:
            work = self._yard.held.get(fence)
            # A claim whose last settlement is under way may have ended by it: that answer decides.
            if work is not None and not (work.sent is not None and work.sent.end):
                self._drop(work, "lost")

    def _drop(self, work: Slice, reason: str) -> None:
        """The claim is not ours, or may soon not be: stop its handlers and say nothing of it to the store."""
        claim = work.claim
        if work.lost or work.ended:
            return
        work.drop(Conflict(f"the claim of {claim.stage} was lost: {reason}"))
        self.observer.event("claim.lost", job=claim.job, stage=claim.stage, fence=claim.fence, reason=reason)
        self.observer.count(f"claim.lost.{reason}", 1)
        self._crews[claim.flow, claim.stage].interrupt(Why.LOST, work)
        self._yard.let_go(work)

    async def _claim_for_ever(self) -> None:
        yard, outage = self._yard, Outage(self._yard)
        while not yard.draining:
            yard.bell.clear()
            yard.look_again()
            wants = self._wants()
            if not wants:
                await yard.wait_bell()
                continue
            asked_at, rings = yard.now(), yard.rings
            try:
                grant = await self._store.claim(self.id, wants, yard.options.hold_s)
            except HeadraceError as error:
                if not error.heals:
                    raise
                await outage.wait("store.failing", error)
                continue
            yard.moved()
            outage.reset()
            granted = {(claim.flow, claim.stage) for claim in grant.claims}
            dry = {(want.flow, want.stage) for want in wants} - granted
            # What rang while the store was looking may have come too late for its answer.
            if dry and yard.rings == rings:
                yard.ran_dry(dry, self._pause_s(grant))
            await self._accept(grant, asked_at)

    def _wants(self) -> list[Want]:
        held: Counter[tuple[str, str]] = Counter()
        for work in self._yard.held.values():
            held[work.claim.flow, work.claim.stage] += work.stop
        wants = [crew.want(held[name]) for name, crew in self._crews.items() if name not in self._yard.dry]
        return [want for want in wants if want is not None]

    def _pause_s(self, grant: Grant) -> float:
        poll_s = self._yard.options.poll_s
        return poll_s if grant.wait_s is None else max(WAIT_S_MIN, min(grant.wait_s, poll_s))

    async def _accept(self, grant: Grant, asked_at: float) -> None:
        alone: Slice | None = None
        for claim in grant.claims:
            work = self._slice(claim, asked_at)
            if self._yard.now() >= work.good_until - self._yard.margin_s:
                # The answer was so long on its way that the claim may be somebody else's before it is used.
                self.observer.event("claim.lost", job=claim.job, stage=claim.stage, fence=claim.fence, reason="late")
                continue
            self._yard.hold(work)
            if self._yard.draining or (claim.alone and alone is not None):
                # Only one suspect may be held: each lost claim that ran alone is charged to its first item.
                work.on_idle = self._settler.soon
                work.release()
            elif claim.alone:
                alone = work
            else:
                self._crews[claim.flow, claim.stage].accept(work)
        if alone is not None:
            crew = self._crews[alone.claim.flow, alone.claim.stage]
            await run_alone(alone, crew, list(self._crews.values()), self._settler)

    def _slice(self, claim: Claim, asked_at: float) -> Slice:
        stage = self._crews[claim.flow, claim.stage].stage
        return Slice(claim, stage, self._yard.now(), asked_at + self._yard.options.hold_s)
