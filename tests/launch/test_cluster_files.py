"""Checks the files of launch/cluster for containers and Kubernetes, as far as neither is needed."""

import pathlib
import re
import subprocess
import sys

import yaml

REPO = pathlib.Path(__file__).resolve().parents[2]
CLUSTER = REPO / "launch" / "cluster"
sys.path.insert(0, str(REPO / "launch" / "python"))

from packtrain_launch import arguments, hosts  # noqa: E402  # the path is set above

# Of the operator's API v2beta1 (kubeflow/mpi-operator, pkg/apis/kubeflow/v2beta1/types.go) and of pods.
SPEC = {"slotsPerWorker", "runLauncherAsWorker", "runPolicy", "mpiReplicaSpecs", "sshAuthMountPath",
        "launcherCreationPolicy", "mpiImplementation"}
RUN_POLICY = {"cleanPodPolicy", "ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit",
              "schedulingPolicy", "suspend", "managedBy"}
POD = {"terminationGracePeriodSeconds", "containers", "volumes"}
CONTAINER = {"name", "image", "workingDir", "command", "env", "resources", "volumeMounts"}


def read_job():
    return yaml.safe_load((CLUSTER / "mpijob.yaml").read_text())


def test_the_indexed_job_gives_each_pod_its_rank_and_the_address_of_rank_0():
    service, job = yaml.safe_load_all((CLUSTER / "indexedjob.yaml").read_text())
    spec = job["spec"]
    pod = spec["template"]["spec"]
    [container] = pod["containers"]
    variables = {entry["name"]: entry for entry in container["env"]}
    assert (spec["completionMode"], spec["completions"]) == ("Indexed", spec["parallelism"])
    assert variables["WORLD_SIZE"]["value"] == str(spec["completions"])
    assert "job-completion-index" in variables["RANK"]["valueFrom"]["fieldRef"]["fieldPath"]
    # A pod's name is that of the job and its index, in the domain of the service.
    assert variables["MASTER_ADDR"]["value"] == f"{job['metadata']['name']}-0.{service['metadata']['name']}"
    assert pod["subdomain"] == service["metadata"]["name"] and service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}


def test_the_retries_of_the_indexed_job_do_not_depend_on_the_number_of_ranks():
    """All ranks end with one, so that a limit of the whole job would be divided by their number."""
    _, job = yaml.safe_load_all((CLUSTER / "indexedjob.yaml").read_text())
    spec = job["spec"]
    assert "backoffLimit" not in spec and spec["backoffLimitPerIndex"] > 0 and spec["maxFailedIndexes"] == 0
    # Both are what the API demands next to a limit for each index and to a policy of failures.
    assert spec["template"]["spec"]["restartPolicy"] == "Never"
    assert spec["podReplacementPolicy"] == "Failed"


def test_the_indexed_job_ends_at_errors_that_a_restart_repeats_and_at_no_other():
    _, job = yaml.safe_load_all((CLUSTER / "indexedjob.yaml").read_text())
    disruption, *by_code = job["spec"]["podFailurePolicy"]["rules"]
    assert disruption == {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    action = {code: rule["action"] for rule in by_code for code in rule["onExitCodes"]["values"]}
    assert action.pop(75) == "Ignore"
    assert set(action.values()) == {"FailJob"}
    enum = re.search(r"enum class ErrorCategory : int \{(.*?)\};", (REPO / "framework/core/error.h").read_text(), re.DOTALL)
    codes = {name: int(code) for name, code in re.findall(r"k(\w+) = (\d+)", enum[1])}
    restarted = {codes.pop(name) for name in ("Device", "Hang", "ReplicasDiffer", "Stopped")}  # as by packtrain-run
    assert action.keys() == set(codes.values()) and not restarted & action.keys()


def instructions():
    """(instruction, its text) of the Dockerfile, without comments and continuations."""
    text = re.sub(r"^#.*\n", "", (CLUSTER / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [tuple(line.split(None, 1)) for line in text.splitlines() if line.strip()]


def test_the_job_has_the_fields_of_the_operators_api_and_no_other():
    job = read_job()
    assert (job["apiVersion"], job["kind"]) == ("kubeflow.org/v2beta1", "MPIJob")
    spec = job["spec"]
    assert spec.keys() <= SPEC and spec["runPolicy"].keys() <= RUN_POLICY
    assert spec["launcherCreationPolicy"] in ("AtStartup", "WaitForWorkersReady")
    assert spec["mpiImplementation"] == "OpenMPI"
    assert spec["runPolicy"]["cleanPodPolicy"] in ("None", "Running", "All")
    assert spec["mpiReplicaSpecs"].keys() == {"Launcher", "Worker"}
    for replica in spec["mpiReplicaSpecs"].values():
        assert replica.keys() == {"replicas", "restartPolicy", "template"}
        assert replica["restartPolicy"] in ("Never", "OnFailure", "Always", "ExitCode")
        assert replica["template"]["spec"].keys() <= POD


def test_containers_mount_what_there_is_and_workers_run_a_rank_a_gpu():
    spec = read_job()["spec"]
    for replica in spec["mpiReplicaSpecs"].values():
        pod = replica["template"]["spec"]
        [container] = pod["containers"]
        assert container.keys() <= CONTAINER
        assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
        assert container["workingDir"] == "/data"  # which all share, as packtrain-run wants its folder
    [worker] = spec["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    assert worker["resources"]["limits"]["nvidia.com/gpu"] == spec["slotsPerWorker"]


def test_the_launchers_command_is_one_that_packtrain_run_takes(tmp_path, monkeypatch):
    spec = read_job()["spec"]
    [launcher] = spec["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"]
    words = [str(word) for word in launcher["command"]]
    assert words[:3] == ["tini", "--", "packtrain-run"]
    hostfile = tmp_path / "hostfile"  # as the operator writes it
    hostfile.write_text("".join(f"packtrain-worker-{n}.packtrain.default.svc slots=8\n" for n in range(2)))
    words[words.index("/etc/mpi/hostfile")] = str(hostfile)
    settings = arguments.parse(words[3:], {})
    assert settings.doctor and settings.arguments == ["train", "my.yaml"]
    assert settings.roster.used[1] == hosts.Host("packtrain-worker-1.packtrain.default.svc", 8)


def test_what_the_container_copies_is_there_and_its_commands_are_shell():
    for instruction, text in instructions():
        if instruction == "COPY" and not text.startswith("--from=build"):
            assert all((REPO / source).exists() for source in text.split()[:-1]), text
        if instruction == "RUN":
            subprocess.run(["bash", "-n", "-c", text], check=True)
    copied = [text for instruction, text in instructions() if instruction == "COPY"]
    built = " ".join(text for instruction, text in instructions() if instruction == "RUN")
    for text in copied:
        if text.startswith("--from=build"):
            assert text.split()[1] in built, text  # made by the stage before


def test_the_batch_script_names_no_option_that_packtrain_run_lacks():
    text = (CLUSTER / "train.sbatch").read_text()
    [line] = re.findall(r'^"\$launcher" (.*) "\$@" &$', text, re.MULTILINE)
    settings = arguments.parse([*line.split(), "-n", "1", "my.yaml"], {})
    assert settings.doctor and settings.max_restarts == 3
    assert "#SBATCH --signal=B:USR1@" in text and "#SBATCH --requeue" in text
