"""Have second engines judge the signed file, where the profile names some, before anyone receives it."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

from bulksigner.contract.errors import StepFailed
from bulksigner.contract.signing import Format
from bulksigner.files import durable
from bulksigner.pipeline.conductor import apart
from bulksigner.pipeline.cross_checking import Opinion, Subject, ask_engine
from bulksigner.pipeline.work import Work
from bulksigner.settings.cross_check import SecondEngine, read_engine
from bulksigner.settings.signatures import XmlFlavor

__all__ = ["cross_check"]

_EXTENDED = ("AD-RV", "AD-RC", "AD-RA", "B-LT", "B-LTA")


async def cross_check(work: Work) -> None:
    """Ask each engine of the profile that knows the format, after our own check has passed (BEY-02).

    They see clear bytes, also where an envelope leaves (ENC-01). A refusal is a disagreement; an engine without a
    verdict fails the job as well, since the profile asks for its word.
    """
    profile, kind = work.opened.stored, work.job.format
    engines = [engine for text in profile.cross_check if (engine := read_engine(text)).format in (None, kind)]
    if not engines:
        return
    subject = Subject(
        work.require(work.signed),
        work.require(work.staged),
        kind,
        pem=work.is_pem,
        is_plain_xml=kind is Format.XADES and profile.xml_flavor is XmlFlavor.NFE,
        xml_element=profile.xml_sign_element or "",
        is_extended=profile.policy.partition(" ")[0] in _EXTENDED,
    )
    limit_seconds = work.parts.cross_check_limit_seconds
    # In a thread of its own each, since a program may hang; it holds this job and no other.
    opinions = [await apart(partial(_ask, engine, subject, limit_seconds)) for engine in engines]
    told = "; ".join(opinion.line() for opinion in opinions)
    if any(opinion.accepts is False for opinion in opinions):
        raise StepFailed(f"Our own check accepts the signed file. {told}", code="verify.engines-disagree")
    if any(opinion.accepts is None for opinion in opinions):
        raise StepFailed(f"The cross-check did not come to its end. {told}")
    if await apart(lambda: durable.measure(subject.file)) != work.signed_measured:
        raise StepFailed("The signed file is not what it was before the cross-check; a program has changed it.")
    work.opinions = tuple(opinions)
    work.job = await work.parts.write(work.parts.jobs.recording(work.job, message=f"Cross-check: {told}"))


def _ask(engine: SecondEngine, subject: Subject, limit_seconds: float) -> Opinion:
    # In the job's folder, so that whatever a crash leaves goes with it.
    with tempfile.TemporaryDirectory(
        dir=subject.file.parent, prefix=".cross-check-", ignore_cleanup_errors=True
    ) as home:
        return ask_engine(engine, subject, Path(home), limit_seconds)
