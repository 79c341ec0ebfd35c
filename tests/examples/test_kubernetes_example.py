"""`examples/kubernetes`: manifests that Kubernetes takes, that fit their image and the command, and that run.

No image is built and no cluster is used: the Dockerfile is read, and what it would run is run as a process.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import kubernetes_validate
import pytest
import yaml

from ehkafka.cli.app_path import load_app
from ehkafka.cli.settings.given import Given
from ehkafka.embedded.broker import EmbeddedBroker
from ehkafka.settings import Settings
from ehkafka.testing.ports import free_ports
from tests.examples.conftest import clean_environment
from tests.examples.test_page_commands import parse
from tests.kit.pages import ROOT, blocks_of
from tests.kit.running import Running
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = ROOT / "examples" / "kubernetes"
MANIFESTS = {path.name: list(yaml.safe_load_all(path.read_text())) for path in sorted(FOLDER.glob("*.yaml"))}
WORKLOADS = {
    name: next(one for one in documents if one["kind"] in {"Deployment", "StatefulSet"})
    for name, documents in MANIFESTS.items()
}
# The oldest one that any cloud still runs, and the newest of which there is a schema.
VERSIONS = ("1.30", kubernetes_validate.latest_version())
HTTP = "--http"
PATHS = {"startupProbe": "/startup", "readinessProbe": "/ready", "livenessProbe": "/live"}
METRICS = "/metrics"
# To commit a last time and to leave the group, when `stop_s` is over.
LEAVE_S = 5
LIMIT_S = 30.0

of_each = pytest.mark.parametrize("name", WORKLOADS)


def pod_of(name: str) -> Any:
    """Return what a manifest says of its pods."""
    return WORKLOADS[name]["spec"]["template"]


def container_of(name: str) -> Any:
    """Return its one container."""
    (container,) = pod_of(name)["spec"]["containers"]
    return container


def instructions() -> dict[str, str]:
    """Return the words of the Dockerfile's instructions; of one that stands there twice, the later ones."""
    text = (FOLDER / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
    return {word: rest.strip() for word, rest in lines}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", MANIFESTS)
def test_kubernetes_knows_each_field(name: str, version: str) -> None:
    """By its own schema, strictly: a field that is misspelt or stands in the wrong place is refused."""
    for document in MANIFESTS[name]:
        kubernetes_validate.validate(document, version, strict=True)


@of_each
def test_probes_port_and_arguments_agree(name: str) -> None:
    """Each probe asks the path that is meant for it, at the port that the app is started with."""
    container = container_of(name)
    (port,) = container["ports"]
    address = container["args"][container["args"].index(HTTP) + 1]
    assert address == f"0.0.0.0:{port['containerPort']}", "the kubelet comes by the pod's address"
    probes = {probe: container[probe]["httpGet"] for probe in PATHS}
    assert {probe: one["path"] for probe, one in probes.items()} == PATHS
    assert {one["port"] for one in probes.values()} == {port["name"]}
    assert instructions()["EXPOSE"] == str(port["containerPort"])
    notes = pod_of(name)["metadata"].get("annotations")
    if notes is not None:
        assert notes["prometheus.io/port"] == str(port["containerPort"])
        assert notes["prometheus.io/path"] == METRICS


@of_each
def test_the_command_takes_the_arguments(name: str) -> None:
    """Those of the pod, behind the image's own words; alone the image runs the same app."""
    program, *words = json.loads(instructions()["ENTRYPOINT"])
    assert program == "ehkafka"
    for arguments in (container_of(name)["args"], json.loads(instructions()["CMD"])):
        parse([*words, *arguments])
        assert arguments[0] == "app:app"
        assert (FOLDER / "app.py").is_file()


@of_each
def test_the_app_takes_the_variables(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each of ours is a setting that fits, one of its handler reaches it, and a secret's file is mounted."""
    for variable in [one for one in clean_environment({}) if one.startswith(("EHKAFKA_", "AZURE_"))]:
        monkeypatch.delenv(variable)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "app", raising=False)  # an app of the docs that another test ran
    monkeypatch.setattr(sys, "path", [*sys.path])
    key = tmp_path / "key"
    key.write_text("Endpoint=sb://h.servicebus.windows.net/;SharedAccessKeyName=n;SharedAccessKey=azE=")
    pod = pod_of(name)["spec"]
    mounts = {one["name"]: one["mountPath"] for one in container_of(name)["volumeMounts"]}
    for variable, value in given_variables(name, pod_name="readings-0").items():
        if variable.endswith("_FILE"):
            folder, _, file = value.rpartition("/")
            assert folder == mounts["event-hubs"]
            assert {
                "name": "event-hubs",
                "secret": {"secretName": "event-hubs", "defaultMode": 0o440},
            } in pod["volumes"]
            assert f"--from-file={file}=" in (FOLDER / "deployment.yaml").read_text()
            value = str(key)  # noqa: PLW2901 - here it lies elsewhere
        monkeypatch.setenv(variable, value)
    app = load_app(f"{FOLDER}/app.py:app")
    try:
        Given.read().apply(app)
        with app.endpoint:
            assert app.endpoint.is_event_hubs
            app.configuration()
    finally:
        sys.modules.pop("app", None)
    assert [spec.workers for spec in app._options().specs] == [32]
    is_set = WORKLOADS[name]["kind"] == "StatefulSet"
    assert app.settings.instance_id == ("readings-0" if is_set else None)


def given_variables(name: str, pod_name: str) -> dict[str, str]:
    """Return the container's variables as a pod of that name gets them."""
    fields = {"metadata.name": pod_name}
    return {
        one["name"]: one["value"] if "value" in one else fields[one["valueFrom"]["fieldRef"]["fieldPath"]]
        for one in container_of(name)["env"]
    }


@of_each
def test_a_pod_has_time_to_stop_and_few_rights(name: str) -> None:
    """More than `stop_s`, and no hook that would take of it; not root, by the number that the image has."""
    pod, container = pod_of(name)["spec"], container_of(name)
    stop_s = Settings.__dataclass_fields__["stop_s"].default
    assert pod["terminationGracePeriodSeconds"] >= stop_s + LEAVE_S
    assert "lifecycle" not in container
    assert pod["securityContext"]["runAsNonRoot"] is True
    user = pod["securityContext"]["runAsUser"]
    assert instructions()["USER"] == f"{user}:{user}"
    assert f"--uid {user}" in (FOLDER / "Dockerfile").read_text()
    rights = container["securityContext"]
    assert (rights["allowPrivilegeEscalation"], rights["readOnlyRootFilesystem"]) == (False, True)
    assert rights["capabilities"]["drop"] == ["ALL"]
    assert {one["name"] for one in container["volumeMounts"]} == {one["name"] for one in pod["volumes"]}
    assert "cpu" not in container["resources"]["limits"]


def test_the_image_is_of_a_python_and_of_extras_that_there_are() -> None:
    """A slim one that the package supports, of a named Debian; what the command needs, and its server."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    minor = re.fullmatch(r"python:3\.(\d+)-slim-bookworm", instructions()["FROM"])
    assert minor
    assert f"Programming Language :: Python :: 3.{minor[1]}" in project["classifiers"]
    assert "COPY dist/ehkafka-*.whl /wheels/\n" in (FOLDER / "Dockerfile").read_text()
    extras = re.search(r"/ehkafka-\*\.whl\)\[([a-z,]+)\]", (FOLDER / "Dockerfile").read_text())
    assert extras
    assert {"cli", "web"} <= set(extras[1].split(",")) <= set(project["optional-dependencies"])


def test_the_probe_without_http_is_green_for_15_s(tmp_path: Path) -> None:
    """The page's own command, run on a file that was touched now, long ago, and never."""
    block = next(
        one for one in blocks_of(ROOT / "docs" / "guides" / "deploying.md") if one.language == "yaml"
    )
    probe = yaml.safe_load(block.text)["livenessProbe"]
    pod = yaml.safe_load((FOLDER / "statefulset.yaml").read_text().split("---\n")[1])
    pod["spec"]["template"]["spec"]["containers"][0]["livenessProbe"] = probe
    kubernetes_validate.validate(pod, VERSIONS[-1], strict=True)
    file = tmp_path / "live"
    command = [word.replace("/tmp/live", str(file)) for word in probe["exec"]["command"]]

    def is_green() -> bool:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    assert not is_green()
    file.touch()
    assert is_green()
    os.utime(file, (time.time() - 20, time.time() - 20))
    assert not is_green()


# --- the image's command as a plain process ----------------------------------------------------------


def pod_of_the_image(folder: Path, broker: EmbeddedBroker, arguments: list[str]) -> Running:
    """Run what a pod's container would, with the broker of this process in the place of Event Hubs."""
    variables = given_variables("statefulset.yaml", pod_name="readings-0")
    kept = {name: text for name, text in variables.items() if not name.endswith("_FILE")}
    own = {"EHKAFKA_CONSUMER_HEARTBEAT_INTERVAL_MS": "100", "EHKAFKA_BOOTSTRAP": broker.bootstrap}
    program, *words = json.loads(instructions()["ENTRYPOINT"])
    assert program == "ehkafka"
    # What is copied into the image's folder.
    return Running(folder, (*words, *arguments), cwd=FOLDER, env=clean_environment(kept | own))


def test_the_images_command_runs_and_stops_as_a_pod(tmp_path: Path) -> None:
    """It answers all probes and Prometheus, handles a record, and ends within the grace after a SIGTERM."""
    (port,) = free_ports(1)
    words = [f"127.0.0.1:{port}" if ":80" in word else word for word in json.loads(instructions()["CMD"])]
    assert words[-2:] == [HTTP, f"127.0.0.1:{port}"]
    with EmbeddedBroker({"readings": 2}) as broker:
        pod = pod_of_the_image(tmp_path, broker, words)
        try:
            for path in (*PATHS.values(), METRICS):
                url = f"http://127.0.0.1:{port}{path}"
                wait_until(lambda url=url: answer(url) == 200, lambda: pod.stderr, LIMIT_S)
            assert docker_finds_it_healthy(port)
            broker.produce("readings", [(b"home-1", b'{"celsius": 21}')], partition=0)
            pod.wait_for("{'celsius': 21}", timeout_s=LIMIT_S)
            pod.process.send_signal(signal.SIGTERM)
            grace_s = pod_of("statefulset.yaml")["spec"]["terminationGracePeriodSeconds"]
            assert pod.end(grace_s) == 0, pod.stderr
            assert not docker_finds_it_healthy(port)
        finally:
            pod.close()


def docker_finds_it_healthy(port: int) -> bool:
    """Run the image's own health check, at another port."""
    _, _, command = instructions()["HEALTHCHECK"].partition(" CMD ")
    program, *words = [word.replace(":8080/live", f":{port}/live") for word in json.loads(command)]
    assert program == "python"
    return subprocess.run([sys.executable, *words], capture_output=True, check=False).returncode == 0


def answer(url: str) -> int | None:
    """Return the status of an answer; None without one."""
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None
