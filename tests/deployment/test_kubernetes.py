"""The Kubernetes manifests: every field exists in the API, references lead somewhere, and what the programs need is there."""

from __future__ import annotations

import copy
import importlib.util
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import envhub
from envhub.config import load
from envhub.envs import registry
from tests.require import lacking

FOLDER = Path(__file__).parents[2] / "task_images" / "kubernetes"
COMPOSE = FOLDER.parents[1] / "docker-compose.yml"
VERSIONS = ("1.30", "1.37")
ENVIRONMENTS = {"alfworld", "db", "kg", "os", "webshop"}
_UNREFERENCED_SECRETS = {"client-key", "worker-key"}

Object = dict[str, Any]


@pytest.fixture(autouse=True)
def needs_yaml() -> None:
    if importlib.util.find_spec("kubernetes_validate") is None:
        lacking("kubernetes", "the package kubernetes-validate is not installed: pip install 'envhub[dev]'")


@cache
def everything() -> tuple[Object, ...]:
    import yaml

    files = [FOLDER / name for name in kustomization()["resources"]]
    return tuple(each for file in files for each in yaml.safe_load_all(file.read_text("utf-8")))


@cache
def kustomization() -> Object:
    import yaml

    loaded: Object = yaml.safe_load((FOLDER / "kustomization.yaml").read_text("utf-8"))
    return loaded


def of_kind(kind: str) -> list[Object]:
    return [each for each in everything() if each["kind"] == kind]


def name_of(each: Object) -> str:
    return f"{each['kind']} {each['metadata'].get('namespace', '')}/{each['metadata']['name']}"


def problem(each: Object, version: str) -> str | None:
    """What is wrong with an object by the schema of that version; unknown fields are."""
    import kubernetes_validate

    try:
        kubernetes_validate.validate(each, version, strict=True)
    except kubernetes_validate.ValidationError as error:
        return f"{'.'.join(str(part) for part in error.path)}: {error.message}"
    return None


def fields(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of all fields of objects that are not free maps."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*path, key)
            if key not in _FREE_MAPS:
                yield from fields(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from fields(inner, (*path, index))


_FREE_MAPS = frozenset({"labels", "annotations", "matchLabels", "selector", "requests", "limits"})


def misspelt(each: Object, path: tuple[Any, ...]) -> Object:
    broken = copy.deepcopy(each)
    *parents, last = path
    inner = broken
    for part in parents:
        inner = inner[part]
    inner[f"{last}s"] = inner.pop(last)
    return broken


def pods() -> list[tuple[Object, Object]]:
    """Deployments with the specs of their pods."""
    return [(each, each["spec"]["template"]["spec"]) for each in of_kind("Deployment")]


def variables(container: Object) -> dict[str, str]:
    return {each["name"]: each.get("value", "") for each in container["env"]}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_object_keeps_to_the_schema_of_the_api(version: str) -> None:
    found = {name_of(each): problem(each, version) for each in everything()}
    assert {name: text for name, text in found.items() if text} == {}
    assert len(found) == len(everything()) > 20


def test_a_misspelt_field_is_found_wherever_it_is() -> None:
    tried = 0
    for kind in sorted({each["kind"] for each in everything()}):
        each = of_kind(kind)[0]
        for path in fields(each):
            if path[-1] in ("kind", "apiVersion") and len(path) == 1:
                continue
            tried += 1
            assert problem(misspelt(each, path), VERSIONS[-1]), f"{name_of(each)} {path}"
    assert tried > 150


def test_a_value_of_the_wrong_type_is_found() -> None:
    broken = copy.deepcopy(of_kind("Deployment")[0])
    broken["spec"]["replicas"] = "one"
    assert problem(broken, VERSIONS[-1])


def test_every_file_is_applied_and_every_image_is_one_that_is_built() -> None:
    files = {path.name for path in FOLDER.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(kustomization()["resources"]) == files
    images = {spec["containers"][0]["image"] for _, spec in pods()}
    assert images == {f"{each['name']}:{each['newTag']}" for each in kustomization()["images"]}
    assert {image.partition(":")[2] for image in images} == {envhub.__version__}
    names = {image.partition(":")[0] for image in images}
    assert names == {"envhub/controller"} | {f"envhub/worker-{name}" for name in ENVIRONMENTS}
    built = (FOLDER.parent / "build.py").read_text("utf-8")
    assert [name for name in sorted(names) if f'"{name}"' not in built] == []
    composed = COMPOSE.read_text("utf-8")
    assert [name for name in sorted(names) if f"image: {name}:" not in composed] == []


def test_the_programs_take_the_settings_they_are_given(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("a-key")
    for deployment, spec in pods():
        given = variables(spec["containers"][0])
        own = {name: str(key) if name.endswith("_FILE") else value for name, value in given.items()}
        own.pop("NODE_NAME", None)
        settings = load(own, environment_names=registry.names())
        if deployment["metadata"]["name"] != "controller":
            assert settings.worker_key == "a-key"
            assert settings.drain_s + 20 <= spec["terminationGracePeriodSeconds"]
        else:
            assert settings.client_key == settings.worker_key == "a-key"


def test_no_pod_is_given_variables_that_settings_would_refuse() -> None:
    for deployment, spec in pods():
        assert spec["enableServiceLinks"] is False, name_of(deployment)
    assert not [each for each in of_kind("Service") if each["metadata"]["name"].startswith("envhub")]


def test_workers_reach_a_controller_that_is_not_ready_yet() -> None:
    services = {each["metadata"]["name"]: each["spec"] for each in of_kind("Service")}
    for _, spec in pods():
        url = variables(spec["containers"][0]).get("ENVHUB_CONTROLLERS")
        if url is not None:
            host, port = re.fullmatch(r"http://([a-z-]+)\.envhub\.svc:(\d+)", url).groups()  # type: ignore[union-attr]
            assert services[host]["publishNotReadyAddresses"] is True
            assert [each["port"] for each in services[host]["ports"]] == [int(port)]
    assert "publishNotReadyAddresses" not in services["hub"]


def test_selectors_find_what_they_are_for() -> None:
    labels = {
        (each["metadata"]["namespace"], each["metadata"]["name"]): each["spec"]["template"]["metadata"]["labels"]
        for each in of_kind("Deployment")
    }

    def chosen(selector: Mapping[str, str], namespace: str) -> list[str]:
        return [name for (where, name), own in labels.items() if where == namespace and selector.items() <= own.items()]

    for each in of_kind("Deployment"):
        name, namespace = each["metadata"]["name"], each["metadata"]["namespace"]
        assert chosen(each["spec"]["selector"]["matchLabels"], namespace) == [name]
    for each in of_kind("Service"):
        assert chosen(each["spec"]["selector"], each["metadata"]["namespace"]) == ["controller"]
    for each in of_kind("PodDisruptionBudget"):
        selector = each["spec"]["selector"]["matchLabels"]
        assert chosen(selector, each["metadata"]["namespace"]) == [each["metadata"]["name"]]
    for each in of_kind("HorizontalPodAutoscaler"):
        target = each["spec"]["scaleTargetRef"]["name"]
        assert (each["metadata"]["namespace"], target) in labels
        names = [metric["external"]["metric"]["selector"]["matchLabels"] for metric in each["spec"]["metrics"]]
        assert names == [{"environment": target.removeprefix("worker-")}] * 2
    scaled = {each["spec"]["scaleTargetRef"]["name"] for each in of_kind("HorizontalPodAutoscaler")}
    assert scaled == {f"worker-{name}" for name in ENVIRONMENTS}
    assert all("replicas" not in each["spec"] for each in of_kind("Deployment") if each["metadata"]["name"] in scaled)


def test_volumes_are_mounted_and_come_from_what_there_is() -> None:
    claims = {each["metadata"]["name"] for each in of_kind("PersistentVolumeClaim")}
    for deployment, spec in pods():
        volumes = {each["name"]: each for each in spec["volumes"]}
        mounts = {each["name"]: each["mountPath"] for each in spec["containers"][0]["volumeMounts"]}
        assert set(mounts) == set(volumes), name_of(deployment)
        for volume in volumes.values():
            if "persistentVolumeClaim" in volume:
                assert volume["persistentVolumeClaim"]["claimName"] in claims
            if "secret" in volume:
                assert volume["secret"]["secretName"] in _UNREFERENCED_SECRETS
        for name, value in variables(spec["containers"][0]).items():
            if name.endswith("_FILE"):
                assert any(value.startswith(f"{path}/") for path in mounts.values()), name
    assert not of_kind("Secret")


def test_sessions_and_queues_are_metrics_of_the_controller() -> None:
    from envhub.controller.metrics import Metrics
    from tests.controller.peer import Room

    room = Room()
    page = Metrics(room.workers, lambda: 0).render().decode()
    for each in of_kind("HorizontalPodAutoscaler"):
        for metric in each["spec"]["metrics"]:
            assert f"# TYPE {metric['external']['metric']['name']} gauge" in page


def test_a_full_worker_is_kept_by_its_sessions_and_capacities_agree() -> None:
    capacities = {
        deployment["metadata"]["name"]: int(variables(spec["containers"][0]).get("ENVHUB_CAPACITY", 0))
        for deployment, spec in pods()
    }
    for each in of_kind("HorizontalPodAutoscaler"):
        target = each["spec"]["metrics"][1]["external"]["target"]
        assert int(target["averageValue"]) == int(capacities[each["metadata"]["name"]] * 0.7)


def test_pods_have_no_more_rights_than_they_need() -> None:
    for deployment, spec in pods():
        (container,) = spec["containers"]
        own, pod = container["securityContext"], spec["securityContext"]
        assert spec["automountServiceAccountToken"] is False
        assert own["readOnlyRootFilesystem"] is True and own["allowPrivilegeEscalation"] is False
        assert own["capabilities"]["drop"] == ["ALL"]
        assert {"cpu", "memory"} <= set(container["resources"]["limits"]) & set(container["resources"]["requests"])
        if deployment["metadata"]["name"] == "worker-os":
            assert deployment["metadata"]["namespace"] == "envhub-os"
            assert spec["hostUsers"] is False and pod["seccompProfile"]["type"] == "Localhost"
        else:
            assert pod["runAsNonRoot"] is True and pod["runAsUser"] == 10001
            assert pod["seccompProfile"] == {"type": "RuntimeDefault"} and "add" not in own["capabilities"]


def test_both_namespaces_refuse_what_no_rule_allows() -> None:
    closed = {
        each["metadata"]["namespace"]
        for each in of_kind("NetworkPolicy")
        if each["spec"]["podSelector"] == {} and each["spec"]["policyTypes"] == ["Ingress", "Egress"]
    }
    assert closed == {each["metadata"]["name"] for each in of_kind("Namespace")} == {"envhub", "envhub-os"}
