"""What the routes answer, shape by shape (API-56 to API-73); the members are those of the handlers."""

from __future__ import annotations

from collections.abc import Mapping

from bulksigner.backup.runs import Result
from bulksigner.contract.signing import Format
from bulksigner.contract.validation import Severity
from bulksigner.jobs.model import JobSource
from bulksigner.jobs.states import JobStatus
from bulksigner.web.schema import (
    DAY,
    FLAG,
    GUID,
    NUMBER,
    TEXT,
    TIME,
    Schema,
    any_of,
    array,
    map_of,
    nullable,
    record,
    ref,
)

__all__ = ["SHAPES"]

_FORMAT = any_of(known.value for known in Format)
_STATUS = any_of(known.value for known in JobStatus)
_COUNTS = dict.fromkeys(("scanned", "enqueued", "alreadyActive", "ignored", "errors", "alreadyProcessed"), NUMBER)
_ITEM: Mapping[str, Schema] = {
    "id": GUID,
    "fileName": TEXT,
    "originalPath": TEXT,
    "format": _FORMAT,
    "source": any_of(known.value for known in JobSource),
    "status": _STATUS,
    "createdAt": TIME,
    "updatedAt": TIME,
    "parentJobId": nullable(GUID),
    "errorCode": nullable(TEXT),
    "errorMessage": nullable(TEXT),
    "profileName": TEXT,
}
_CNAB240 = record(
    totalCentavos=NUMBER,
    totalFormatted=TEXT,
    paymentCount=NUMBER,
    cancellationCount=NUMBER,
    earliestPaymentDate=nullable(DAY),
    latestPaymentDate=nullable(DAY),
    contentSha256=TEXT,
)
_SIGNERS = any_of(("ProfileKey", "Approvers", "ProfileKeyAndApprovers"))
_APPROVAL = record(
    required=NUMBER,
    poolSize=NUMBER,
    approved=NUMBER,
    rejected=NUMBER,
    outstanding=NUMBER,
    quorumReached=FLAG,
    vetoed=FLAG,
    frozenAt=TIME,
    parkedSince=nullable(TIME),
    expiresAt=nullable(TIME),
    expiresAfterSeconds=nullable(NUMBER),
    signers=_SIGNERS,
)
_RUN = record(
    runId=TEXT,
    actor=TEXT,
    result=any_of(known.value for known in Result),
    startedAtUtc=TIME,
    endedAtUtc=TIME,
    durationMs=NUMBER,
    fileName=nullable(TEXT),
    bytes=nullable(NUMBER),
    reason=nullable(TEXT),
)


def _page_of(item: str) -> Schema:
    return record(items=array(ref(item)), page=NUMBER, pageSize=NUMBER, totalCount=NUMBER)


SHAPES: Mapping[str, Schema] = {
    "Problem": record(
        ("detail", "instance", "errors"),
        type=TEXT,
        title=TEXT,
        status=NUMBER,
        code=ref("Code"),
        traceId={"type": "string", "pattern": "^[0-9a-f]{32}$"},
        requestId={"type": "string", "pattern": "^[0-9a-f]{16}$"},
        errors=map_of(array(TEXT)),
        detail=TEXT,
        instance=TEXT,
    ),
    "Health": record(status={"type": "string", "const": "healthy"}),
    "Verdict": record(ready=FLAG, checks=array(record(name=TEXT, ok=FLAG))),
    "Readiness": record(ready=FLAG, checks=array(record(name=TEXT, ok=FLAG, detail=TEXT))),
    "Taken": record(jobId=GUID, fileName=TEXT, originalPath=TEXT, format=_FORMAT, status=_STATUS),
    "Finding": record(
        code=TEXT, severity=any_of(known.value for known in Severity), place=TEXT, text=TEXT, remedy=TEXT
    ),
    "FileReport": record(profile=TEXT, wouldSign=FLAG, findings=array(ref("Finding"))),
    "Job": record(**_ITEM),
    "JobPage": _page_of("Job"),
    "JobDetail": record(
        **_ITEM,
        outputEncrypted=FLAG,
        inputFolder=nullable(TEXT),
        metadata=map_of(TEXT),
        history=array(record(id=NUMBER, timestamp=TIME, status=_STATUS, message=TEXT)),
        cnab240=nullable(_CNAB240),
        approval=nullable(_APPROVAL),
    ),
    "Retried": record(newJobId=GUID, parentJobId=GUID, status=_STATUS),
    "Cleared": record(
        deleted=NUMBER,
        filesDeleted=NUMBER,
        foldersDeleted=NUMBER,
        eventsDeleted=NUMBER,
        itemsFailed=NUMBER,
        message=TEXT,
    ),
    "Pipeline": record(
        paused=FLAG,
        pausedAtUtc=nullable(TIME),
        resumedAtUtc=nullable(TIME),
        pausedBy=nullable(TEXT),
        reason=nullable(TEXT),
        maxConcurrency=NUMBER,
        jobsInFlight=NUMBER,
        jobsInFlightByFormat=record(pades=NUMBER, cades=NUMBER, xades=NUMBER, total=NUMBER),
    ),
    "Profile": record(
        name=TEXT,
        enabled=FLAG,
        inputFolder=nullable(TEXT),
        format=nullable(_FORMAT),
        method=TEXT,
        certificateSource=nullable(TEXT),
        verify=FLAG,
        encrypt=FLAG,
        validateCertificate=FLAG,
        checkCnab240=FLAG,
        checkCnab240PaymentDates=FLAG,
        preserveFileExtension=FLAG,
        saveAsPem=FLAG,
        approval=nullable(
            record(required=NUMBER, poolSize=NUMBER, expiresAfterSeconds=nullable(NUMBER), signers=_SIGNERS)
        ),
        policy=nullable(TEXT),
        padesFilter=nullable(TEXT),
        xmlFlavor=TEXT,
        xmlSha1Until=nullable(TEXT),
        xmlPlacement=TEXT,
        xmlSignElement=nullable(TEXT),
        cadesExisting=TEXT,
        cadesContent=TEXT,
        crossCheck=array(TEXT),
        heldSinceUtc=nullable(TIME),
        heldReason=nullable(TEXT),
    ),
    "Profiles": record(profiles=array(ref("Profile"))),
    "Event": record(id=NUMBER, timestamp=TIME, eventType=TEXT, message=TEXT),
    "EventPage": _page_of("Event"),
    "EventTypes": array(TEXT),
    "Folders": record(
        instance=nullable(TEXT),
        folders=array(
            record(
                name=TEXT,
                path=TEXT,
                exists=FLAG,
                status=TEXT,
                lastScanAt=nullable(TIME),
                lastEnqueueAt=nullable(TIME),
                lastError=nullable(TEXT),
                processedCount=NUMBER,
                fileCount=NUMBER,
                fileCountCapped=FLAG,
                profileName=nullable(TEXT),
                profileFormat=nullable(TEXT),
            )
        ),
    ),
    "Rescan": record(
        folders=array(record(name=TEXT, path=TEXT, **_COUNTS, enqueuedFiles=array(TEXT), unassigned=FLAG)),
        totals=record(folders=NUMBER, **_COUNTS, unassigned=NUMBER),
    ),
    "CleanUp": record(
        ("enabled", "dryRun", "acknowledged", "runId", "classes"),
        message=TEXT,
        enabled=FLAG,
        dryRun=FLAG,
        acknowledged=FLAG,
        runId=nullable(TEXT),
        classes=array(
            record(
                matched=NUMBER,
                removed=NUMBER,
                moved=NUMBER,
                kept=NUMBER,
                failed=NUMBER,
                bytes=NUMBER,
                **{"class": TEXT},
            )
        ),
    ),
    "Backups": record(
        ("destination", "intervalHours", "retainCount", "running", "lastSuccessAtUtc", "nextDueAtUtc", "runs"),
        supported=FLAG,
        enabled=FLAG,
        destination=record(kind=TEXT, path=TEXT),
        intervalHours=nullable(NUMBER),
        retainCount=nullable(NUMBER),
        running=nullable(record(runId=TEXT, actor=TEXT, startedAtUtc=TIME)),
        lastSuccessAtUtc=nullable(TIME),
        nextDueAtUtc=nullable(TIME),
        runs=array(_RUN),
    ),
    "BackupRun": record(runId=TEXT),
    "WhoAmI": record(("csrfToken",), name=TEXT, scheme=any_of(("ApiKey", "Cookie")), roles=array(TEXT), csrfToken=TEXT),
    "OpenApi": {"type": "object"},
}
"""Each by the name that the document gives it."""
