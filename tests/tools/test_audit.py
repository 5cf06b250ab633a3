"""tools/audit.py against an index of our own: what it finds, what it lets pass, and that it never passes for want of data."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import audit  # noqa: E402  # type: ignore[import-not-found]

BAD = {"id": "GHSA-0", "aliases": [audit.KNOWN_BAD[2]], "summary": "weak", "fixed_in": [], "withdrawn": None}
HOLE = {"id": "GHSA-1", "aliases": ["CVE-1"], "summary": "a hole", "fixed_in": ["2.1"], "withdrawn": None}
SAME = {**HOLE, "id": "PYSEC-1", "aliases": ["CVE-1", "GHSA-1"]}
GONE = {**HOLE, "id": "GHSA-2", "aliases": ["CVE-2"], "withdrawn": "2026-01-01"}


@contextmanager
def index(documents: dict[str, Any]) -> Iterator[str]:
    """An index that has these documents, by their paths."""

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = documents.get(self.path.removeprefix("/pypi/").removesuffix("/json"))
            status = found if isinstance(found, int) else 404 if found is None else 200
            body = json.dumps(found).encode() if status == 200 else b""
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *given: Any) -> None:
            """Its value is not read."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def release(version: str, *listed: dict[str, Any]) -> dict[str, Any]:
    return {"info": {"version": version}, "vulnerabilities": list(listed)}


KNOWN = {"pycrypto/2.6.1": release("2.6.1", BAD)}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements" / "run.txt").write_text(
        "thing==2.0 \\\n    --hash=sha256:00\nOther_Thing[extra]==1.0 ; sys_platform != 'win32'\n"
    )
    return tmp_path


def audited(project: Path, documents: dict[str, Any]) -> Any:
    with index(KNOWN | documents) as address:
        return audit.audited(project, address)


def test_pins_without_advisories_pass(project: Path) -> None:
    report = audited(project, {"thing/2.0": release("2.0", GONE), "other-thing": release("1.0")})
    assert (report.code, report.pins, report.problems, report.unchecked) == (0, 2, [], [])


def test_an_advisory_is_told_once_with_what_mends_it(project: Path) -> None:
    report = audited(project, {"thing/2.0": release("2.0", HOLE, SAME), "other-thing/1.0": release("1.0")})
    assert report.code == 1
    assert report.problems == ["thing==2.0 (run.txt): CVE-1, GHSA-1, PYSEC-1: a hole; fixed in 2.1"]


def test_a_reviewed_advisory_passes_with_its_reason(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(audit.ACCEPTED, ("thing", "CVE-1"), "we do not call it")
    report = audited(project, {"thing/2.0": release("2.0", HOLE), "other-thing/1.0": release("1.0")})
    assert report.code == 0
    assert report.accepted[0].endswith("a hole; we do not call it")


@pytest.mark.parametrize("found", [None, release("3.0")], ids=["unknown", "only a newer one"])
def test_a_pin_that_nothing_is_known_about_is_no_pass(project: Path, found: Any) -> None:
    report = audited(project, {"thing/2.0": release("2.0"), **({} if found is None else {"other-thing": found})})
    assert (report.code, report.unchecked) == (2, ["other-thing==1.0 (run.txt)"])


@pytest.mark.parametrize(
    "documents", [{"pycrypto/2.6.1": release("2.6.1")}, {"pycrypto/2.6.1": 503}], ids=["no advisories", "away"]
)
def test_an_index_without_the_data_is_no_pass(
    project: Path, documents: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    with index({"thing/2.0": release("2.0"), "other-thing/1.0": release("1.0")} | documents) as address:
        assert audit.main(["--root", str(project), "--index", address]) == 2
    assert "nothing was checked" in capsys.readouterr().out
    assert audit.main(["--root", str(project), "--index", "http://127.0.0.1:9", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["unchecked"] == ["other-thing==1.0", "thing==2.0"]


def test_the_core_is_small_and_licences_are_free() -> None:
    report = audit.Report()
    audit.check_core(report, ROOT / "pyproject.toml")
    audit.check_licences(report, audit.pins_of([ROOT / "requirements" / "run.txt"]))
    assert report.problems == []
    assert len(report.licences) > 40


def test_another_dependency_of_the_core_is_a_problem(project: Path) -> None:
    text = (project / "pyproject.toml").read_text().replace('    "typer>=0.15",\n', '    "typer>=0.15",\n    "requests>=2",\n')
    (project / "pyproject.toml").write_text(text)
    report = audit.Report()
    audit.check_core(report, project / "pyproject.toml")
    assert report.problems == [
        "the core depends on apsw, numpy, requests, rich, typer: it is to be apsw, numpy, rich, typer and nothing else"
    ]
