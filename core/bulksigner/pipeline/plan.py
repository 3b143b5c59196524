"""The steps of a job, in order, as data; after the last one the output is delivered and the job ends Completed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from operator import attrgetter

import attrs

from bulksigner.pipeline.steps.check import check
from bulksigner.pipeline.steps.clean import clean
from bulksigner.pipeline.steps.cross_check import cross_check
from bulksigner.pipeline.steps.encrypt import encrypt
from bulksigner.pipeline.steps.promote import promote
from bulksigner.pipeline.steps.sign import mark, sign
from bulksigner.pipeline.steps.stage import resolve, stage
from bulksigner.pipeline.steps.verify import verify
from bulksigner.pipeline.work import Work

__all__ = ["LOCAL", "Step"]


@attrs.frozen
class Step:
    """One step of a plan: its name in logs and durations, the act, and the code of a failure that names none."""

    name: str
    act: Callable[[Work], Awaitable[None]]
    code: str | None = None
    when: Callable[[Work], bool] | None = None
    """Tells whether a job takes the step; without it every job does."""


LOCAL = (
    Step("resolve", resolve),  # PIPE-71
    Step("stage", stage),  # PIPE-73, PIPE-74
    Step("check", check),  # PIPE-75
    Step("mark", mark),  # PIPE-77, PIPE-78
    Step("sign", sign, "sign.failed"),  # PIPE-79
    Step("verify", verify, "verify.failed"),  # PIPE-80
    Step("cross-check", cross_check, "verify.failed", when=attrgetter("is_cross_checked")),  # PIPE-80, BEY-02
    Step("encrypt", encrypt, "encrypt.failed", when=attrgetter("is_encrypted")),  # PIPE-81
    Step("promote", promote),  # PIPE-82
    Step("clean", clean),  # PIPE-83; then `Ending.complete` (PIPE-84)
)
