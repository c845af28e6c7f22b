"""DualPipeV: DualPipe cut in half, its two directions joined to one way there and back."""

from __future__ import annotations

from explorer.actions import FORWARD, Action, Actions, Order, Place, Shape
from explorer.schedules import SCHEDULES, ClosedForm, Needs, Pipeline, Schedule
from explorer.schedules._common import each_step, own, updates
from explorer.schedules.dualpipe import before_backwards, estimate, in_phases, paired, phases, spans
from explorer.schedules.needs import Least
from explorer.schedules.placements import VEE

PAPER = "DeepSeek-V3 Technical Report (DeepSeek-AI, 2024); Cut-in-half (Qi et al., 2025)"


def makespan(of: Pipeline) -> float | None:
    """Return the makespan if a forward takes as long as an input gradient: 2 m (F + B) and a bubble
    of (p - 1)(F&B + B - 3W), with F&B = F + B as nothing is hidden.
    """
    if of.chunks != 2 or of.forward_s != of.input_grad_s:
        return None
    bubble = (of.p - 1) * (of.round_s + of.backward_s - 3 * of.weight_grad_s)
    return 2 * of.m * of.round_s + bubble


@SCHEDULES.add(
    Schedule(
        name="dualpipe_v",
        title="There and back, forwards and backwards of two microbatches as one action",
        paper=PAPER,
        torch_name="DualPipeV",
        placement=VEE,
        needs=Needs(
            copies=(1,),
            placed=True,
            equal_microbatches=True,
            split_microbatches=True,
            chunk_multiple=2,
            most_chunks=2,
            least=Least(
                text="as many microbatches as stages", of=lambda shape: (shape.stages,) * shape.stages
            ),
        ),
        closed_form=ClosedForm(makespan=makespan),
        lower=spans,
        estimate=estimate,
        hides=True,
        paired=paired,
        in_flight=before_backwards,
    )
)
def order(shape: Shape, *, steps: int) -> Order:
    """Run forwards and backwards of both chunks in pairs, once the first microbatch has come back.

    Rank r of p holds stages r and 2 p - 1 - r. Its backwards are whole in the steady part; of those that no
    forward goes with, the first are split to send gradients on early, and the last for weight gradients to
    fill the drain.
    """
    ranks = shape.stages // 2

    def lane(places: tuple[Place, ...], step: int) -> Actions:
        if not places:
            return Actions.of(())
        there, back = places
        numbers = own(shape, there, step)
        if not shape.training:
            return Actions.of(Action(FORWARD, place.stage, n) for place in places for n in numbers)
        found = phases(there.stage, ranks, len(numbers))
        made = in_phases(found, (there, back), (numbers.start, numbers.start))
        return Actions.joined([made, updates(shape, places, step)])

    return Order(lanes=each_step(shape, steps, lane), steps=steps, options={"chunks": 2})
