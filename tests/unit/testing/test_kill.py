"""The durable steps are found, watched and died at."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys

import pytest

from bulksigner.testing import kill
from bulksigner.testing.kill import Moment, Plan, durable_steps

SCRIPT = """
import sys
from pathlib import Path
from bulksigner.files import durable
from bulksigner.intake import upload
from bulksigner.testing.kill import Moment, Plan, follow

folder = Path(sys.argv[1])
follow(Plan(folder, dies_at=Moment.parse(sys.argv[2]) if sys.argv[2] else None, is_traced=True))
durable.write_new(folder / "a", lambda out: out.write(b"content"))
upload.remove_file(folder / "a")
"""


@pytest.fixture
def run(tmp_path):
    def run(moment=""):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = [sys.executable, "-c", SCRIPT, str(tmp_path), moment]
        code = subprocess.run(command, env=environment, check=False).returncode
        lines = (tmp_path / "trace").read_text(encoding="utf-8").splitlines()
        return code, [json.loads(line)[0] for line in lines]

    return run


def test_the_steps_are_those_of_the_code():
    """BEY-51: what moves files and rows is among them by existing; what only computes, and what is private, is not."""
    steps = durable_steps()
    assert {
        "files.durable.promote",
        "files.durable.write_new",
        "files.work.WorkRoots.fail_job_folder",
        "records.migrate.migrate",
        "records.sqlite.SqliteStore.write",
        "records.postgresql.PostgresqlStore.write",
    } <= steps.keys()
    assert not [step for step in steps if step.startswith(("records.times", "files.names"))]
    assert not [step for step in steps if step.rpartition(".")[2].startswith("_")]
    for holder, name in steps.values():
        assert not inspect.isgeneratorfunction(inspect.unwrap(getattr(holder, name)))


def test_each_call_is_seen_before_and_after_with_the_system_calls_in_it(run, tmp_path):
    """BEY-51: also a function that another module imported by name before it was watched."""
    code, trace = run()
    assert code == 0
    watched = ("files.durable.write_new", "files.durable.remove_file", "os.")
    assert [text for text in trace if text.startswith(watched)] == [
        "files.durable.write_new#1:before",
        "os.open#1:before",
        "os.open#1:after",
        "os.fsync#1:before",
        "os.fsync#1:after",
        "files.durable.write_new#1:after",
        "files.durable.remove_file#1:before",
        "os.unlink#1:before",
        "os.unlink#1:after",
        "files.durable.remove_file#1:after",
    ]


@pytest.mark.parametrize(
    ("moment", "is_there"), [("files.durable.write_new#1:after", True), ("os.unlink#1:after", False)]
)
def test_a_process_dies_at_its_moment_and_only_once(run, tmp_path, moment, is_there):
    """BEY-51: what was done before the moment is done, what comes after it is not; the next life goes on."""
    code, trace = run(moment)
    assert code == -9
    assert moment not in trace
    assert (tmp_path / "a").exists() is is_there
    (tmp_path / "a").unlink(missing_ok=True)
    code, _ = run(moment)
    assert code == 0


def test_a_plan_survives_its_way_through_the_environment(tmp_path, monkeypatch):
    """PERF-06: signing workers read it there."""
    plan = Plan(tmp_path, dies_at=Moment("key.sign", 2, "after"), kills_parent=True, pause_seconds=0.5)
    for given in (plan, Plan(tmp_path, filler=tmp_path / "filler")):
        assert Plan.parse(given.text()) == given
    variables = kill.child_environment(plan)
    assert variables["PYTHONPATH"].split(os.pathsep)[0] == str(tmp_path)
    assert Plan.parse(variables[kill.PLAN_VARIABLE]) == plan
    monkeypatch.delenv(kill.PLAN_VARIABLE, raising=False)
    kill.follow_plan()
