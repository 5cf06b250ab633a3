"""How keepstone is handed out: the registry's server.json, the bundle, one-click links and the manifests for Kubernetes."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
import yaml

from keepstone import __version__
from tests.cli.support import process

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "deploy" / "kustomize"


def read(path: str) -> Any:
    return json.loads((ROOT / path).read_text(encoding="utf-8"))


def test_registry_and_bundle_name_this_version_and_commands_that_exist() -> None:
    server, bundle = read("server.json"), read("plugins/mcpb/manifest.json")
    (package,) = server["packages"]
    assert {server["version"], package["version"], bundle["version"], read("clients/typescript/package.json")["version"]} == {
        __version__
    }
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", server["name"])
    assert 1 <= len(server["description"]) <= 100
    assert f"<!-- mcp-name: {server['name']} -->" in (ROOT / "README.md").read_text(encoding="utf-8")
    pinned = f"keepstone[mcp]=={__version__}"
    assert package["runtimeArguments"][0]["value"] == bundle["server"]["mcp_config"]["args"][1] == pinned
    assert (ROOT / "plugins" / "mcpb" / bundle["server"]["entry_point"]).is_file()
    given = bundle["server"]["mcp_config"]["args"][3:]
    assert [given[0], package["packageArguments"][0]["value"]] == ["mcp", "mcp"]
    options = process("mcp", "--help", cwd=ROOT).stdout
    named = [word for word in given if word.startswith("--")] + [package["packageArguments"][1]["name"]]
    assert [name for name in named if name not in options] == []


def test_the_links_of_one_click_install_hold_the_configuration_of_the_guide() -> None:
    text = (ROOT / "docs" / "guides" / "mcp.md").read_text(encoding="utf-8")
    cursor = next(re.finditer(r"\((cursor://[^)]+)\)", text))[1]
    query = parse_qs(urlsplit(cursor).query)
    wanted = {"command": "uvx", "args": ["--from", "keepstone[mcp]", "keepstone", "mcp", "--allow-forget"]}
    assert (query["name"], json.loads(base64.b64decode(query["config"][0]))) == (["keepstone"], wanted)
    code = next(re.finditer(r"\((vscode:mcp/install\?[^)]+)\)", text))[1]
    assert json.loads(unquote(code.partition("?")[2])) == {"name": "keepstone", **wanted}


def resources() -> dict[tuple[str, str], Any]:
    kustomization = yaml.safe_load((MANIFESTS / "kustomization.yaml").read_text(encoding="utf-8"))
    found = [each for name in kustomization["resources"] for each in yaml.safe_load_all((MANIFESTS / name).read_text())]
    assert {path.name for path in MANIFESTS.glob("*.yaml")} == {"kustomization.yaml", *kustomization["resources"]}
    assert kustomization["images"][0]["newTag"] == __version__
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


def test_the_manifests_fit_together() -> None:
    found = resources()
    deployment, service = found["Deployment", "keepstone"], found["Service", "keepstone"]
    pod = deployment["spec"]["template"]
    labels = pod["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert service["spec"]["selector"].items() <= labels.items()
    assert found["PodDisruptionBudget", "keepstone"]["spec"]["selector"]["matchLabels"].items() <= labels.items()
    (container,) = pod["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert service["spec"]["ports"][0]["targetPort"] in ports
    assert str(ports["http"]) == container["args"][container["args"].index("--port") + 1]
    for name, path in (("readinessProbe", "/readyz"), ("livenessProbe", "/healthz")):
        assert container[name]["httpGet"] == {"path": path, "port": "http"}
    job = found["CronJob", "keepstone-upkeep"]["spec"]["jobTemplate"]["spec"]["template"]
    assert not service["spec"]["selector"].items() <= job["metadata"]["labels"].items(), "upkeep answers no requests"
    for each in (pod, job):
        spec, (own,) = each["spec"], each["spec"]["containers"]
        assert spec["securityContext"]["runAsNonRoot"]
        assert own["securityContext"]["readOnlyRootFilesystem"]
        assert own["envFrom"] == [{"secretRef": {"name": "keepstone"}}]
        assert {mount["name"] for mount in own["volumeMounts"]} == {volume["name"] for volume in spec["volumes"]}


@pytest.mark.parametrize("kind", ["Deployment", "CronJob"])
def test_the_commands_of_the_manifests_exist(kind: str) -> None:
    (found,) = (each for (own, _), each in resources().items() if own == kind)
    spec = found["spec"]["template"]["spec"] if kind == "Deployment" else found["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    arguments = spec["containers"][0]["args"]
    words = [word for word in arguments if not word.startswith("-")]
    command = words[:2] if words[0] == "upkeep" else words[:1]
    shown = process(*command, "--help", cwd=ROOT)
    assert shown.returncode == 0
    assert [word for word in arguments if word.startswith("--") and word not in shown.stdout] == []
