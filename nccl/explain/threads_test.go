package explain

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/nccl/env"
)

// threads are what programs printed in public threads, in testdata/threads, at most 12 lines of each: hosts and addresses are replaced by
// names and addresses for documentation. named is the finding that names the cause which the thread found. "unknown":
// the lines do not show it, and explain neither claims one nor calls them sound. "": nothing fatal is in them, and explain finds no error.
var threads = []struct{ file, thread, named string }{
	{"modify-qp-unreachable.log", "NVIDIA/nccl-tests/issues/185", "No route to the peer's GID"},
	{"error12-bare.log", "NVIDIA/nccl/issues/426", "Packets are lost, or the peer is gone"},
	{"status12-plugin-ipv6.log", "NVIDIA/nccl/issues/1405", "Packets are lost, or the peer is gone"},
	{"status12-one-line-ibp.log", "NVIDIA/nccl/issues/1664", "Packets are lost, or the peer is gone"},
	{"status12-gid3-alibaba.log", "NVIDIA/nccl/issues/1814", "The two ends are in different networks"},
	{"shm-extend-old.log", "NVIDIA/nccl-tests/issues/166", "/dev/shm is too small"},
	{"shm-k8s-runner.log", "pytorch/ci-infra/pull/490", "/dev/shm is too small"},
	{"shm-fallocate-29.log", "NVIDIA/nccl/issues/525", "/dev/shm is too small"},
	{"shm-fallocate-docker-25.log", "NVIDIA/nccl/issues/290", "/dev/shm is too small"},
	{"shm-attach-nofile.log", "vllm-project/vllm/issues/18831", "The name of shared memory is not valid"},
	{"shm-cuda-invalid.log", "NVIDIA/nccl/issues/1518", "Shared memory cannot be used"},
	{"shm-dynamo-late.log", "ai-dynamo/dynamo/issues/1408", "/dev/shm is too small"},
	{"ifname-not-found-family.log", "NVIDIA/nccl/issues/1837", "An address was never filled in"},
	{"socket-family-24.log", "NVIDIA/nccl/issues/210", "No interface for bootstrap"},
	{"connect-timeout-22.log", "NVIDIA/nccl-tests/issues/15", "The peer cannot be reached"},
	{"no-route-sglang.log", "sgl-project/sglang/issues/3820", "The peer cannot be reached"},
	{"reg-mr-iova2.log", "NVIDIA/nccl-tests/issues/206", "memlock is limited"},
	{"create-qp-docker-27.log", "NVIDIA/nccl/issues/1129", "The NIC refuses a connection"},
	{"create-cq-27.log", "NVIDIA/nccl/issues/380", "The NIC refuses a connection"},
	{"create-qp-slurm-pyxis.log", "NVIDIA/nccl/issues/562", "The NIC refuses a connection"},
	{"nvls-401.log", "NVIDIA/nccl/issues/1788", "NVLink SHARP (NVLS) cannot be set up"},
	{"nvls-traceback-229.log", "pytorch/pytorch/pull/177472", "NVLink SHARP (NVLS) cannot be set up"},
	{"nvls-invalid-arg-222.log", "NVIDIA/nccl/issues/1488", "NVLink SHARP (NVLS) cannot be set up"},
	{"nvls-999-h200.log", "NVIDIA/nccl-tests/issues/276", "NVLink SHARP (NVLS) cannot be set up"},
	{"nvls-h800-221.log", "NVIDIA/nccl/issues/1338", "NVLink SHARP (NVLS) cannot be set up"},
	{"macvlan-show-gids.log", "NVIDIA/nccl/issues/1573", ""},
	{"uccl-getversion.log", "uccl-project/uccl/issues/301", "Sparse GID table"},
	{"addr-range-k8s.log", "NVIDIA/nccl/issues/1332", "Sparse GID table"},
	{"error4-gid3.log", "NVIDIA/nccl/issues/1052", "Memory protection error"},
	{"spark-table-fine.log", "NVIDIA/dgx-spark-playbooks/issues/25", ""},
	{"spark-vllm-fine.log", "mark-ramsey-ri/vllm-dgx-spark/issues/1", ""},
	{"vllm-nccl-error-2.log", "vllm-project/vllm/issues/5828", "NCCL reports a system error"},
	{"vllm-proxy-call-refused.log", "vllm-project/vllm/issues/798", "NCCL's proxy thread failed"},
	{"fine-shm-four-gpus.log", "vllm-project/vllm/issues/6650", ""},
	{"vllm-pynccl-traceback.log", "vllm-project/vllm/issues/4114", "unknown"},
	{"vllm-assert-value.log", "vllm-project/vllm/issues/13052", "unknown"},
	{"vllm-16707-system-error.log", "vllm-project/vllm/issues/16707", "NCCL reports a system error"},
	{"modify-qp-timeout-irdma.log", "NVIDIA/nccl-tests/issues/227", "The peer's address does not answer"},
	{"modify-qp-110-rail.log", "NVIDIA/nccl/issues/2013", "The peer's address does not answer"},
	{"duplicate-gpu-horovod.log", "horovod/horovod/issues/3929", "Two ranks on one GPU"},
	{"duplicate-gpu-megatron.log", "NVIDIA/Megatron-LM/issues/661", "Two ranks on one GPU"},
	{"mismatched-collective-24.log", "NVIDIA/nccl/issues/296", "Ranks do not agree on a size"},
	{"collective-mismatch-ib.log", "NVIDIA/nccl/issues/969", "Ranks do not agree on a size"},
	{"family-0-gcp.log", "NVIDIA/nccl/issues/1267", "An address was never filled in"},
	{"status12-then-5-hca.log", "NVIDIA/nccl/issues/1698", "Packets are lost, or the peer is gone"},
	{"gid-table-change-27.log", "NVIDIA/nccl/issues/394", "An address of a NIC changed"},
	{"open-device-failed-docker.log", "NVIDIA/nccl/issues/451", "The RDMA device cannot be opened"},
	{"libibverbs-no-ip-2018.log", "NVIDIA/nccl-tests/issues/14", "No interface for bootstrap"},
	{"libibverbs-cuda-function.log", "NVIDIA/nccl/issues/444", "No code for this GPU"},
	{"libibverbs-sglang.log", "sgl-project/sglang/pull/1427", ""},
	{"libibverbs-horovod-bridges.log", "horovod/horovod/issues/685", ""},
	{"fine-efa.log", "NVIDIA/nccl/issues/229", ""},
	{"error5-traceback-219.log", "pytorch/pytorch/issues/122571", "Flushed after another error"},
	{"ras-mismatch.log", "NVIDIA/nccl/issues/1911", "Ranks are at different operations"},
	{"ucx-memlock-tight.log", "openucx/ucx/issues/8746", "memlock is limited"},
	{"bootstrap-truncated-219.log", "NVIDIA/nccl/issues/1176", "Ranks do not agree at bootstrap"},
	{"socket-truncated-24.log", "NVIDIA/nccl/issues/268", "Ranks do not agree on a size"},
	{"socket-truncated-210.log", "NVIDIA/nccl/issues/626", "Ranks do not agree on a size"},
	{"socket-truncated-hint.log", "NVIDIA/nccl/issues/1328", ""},
	{"bootstrap-closed-by-scan.log", "NVIDIA/nccl/issues/1612", "A peer closed the connection"},
	{"wrong-type-4-3.log", "NVIDIA/nccl-tests/issues/188", "A connection came to the wrong socket"},
	{"lightning-slurm-timeout.log", "Lightning-AI/pytorch-lightning/issues/20434", ""},
	{"slurmd-log.log", "NVIDIA/nccl/issues/447", "unknown"},
	{"dlc-eth0-no-socket.log", "aws/deep-learning-containers/pull/6469", "No interface for bootstrap"},
	{"gdr-disabled-peermem.log", "NVIDIA/nccl/issues/1537", "No GPUDirect RDMA"},
	{"gdr-disabled-question.log", "NVIDIA/nccl/issues/1939", "No GPUDirect RDMA"},
	{"dmabuf-not-supported.log", "NVIDIA/nccl/issues/778", "dma-buf is not supported"},
	{"perftest-cuda-bad-address.log", "linux-rdma/perftest/issues/126", "GPU memory cannot be registered"},
	{"fine-vm-227.log", "NVIDIA/nccl/issues/1866", ""},
	{"hang-4090-fine-lines.log", "tinygrad/open-gpu-kernel-modules/issues/45", ""},
	{"bonds-and-bridge-27.log", "Mellanox/nv_peer_memory/issues/78", ""},
	{"modify-qp-einval-e810.log", "NVIDIA/nccl/issues/622", "Incompatible GIDs"},
	{"gh200-mixed-oob.log", "NVIDIA/nccl/issues/1291", "Link-local address for bootstrap"},
	{"mixed-ib-roce-list.log", "NVIDIA/nccl/issues/1737", "InfiniBand and RoCE are mixed"},
	{"nccl-22-flannel-veth.log", "horovod/horovod/issues/489", "Local interfaces among NCCL's"},
	{"ib-send-bw-fine.log", "NVIDIA/nccl/issues/1564", ""},
	{"topo-xml-302.log", "NVIDIA/nccl/issues/302", ""},
	{"watchdog-timeouts-only.log", "hiyouga/LlamaFactory/issues/7396", "PyTorch's watchdog stopped the job"},
	{"watchdog-cxx-frames.log", "sgl-project/sglang/issues/1693", "PyTorch's watchdog stopped the job"},
	{"poll-no-pollout.log", "NVIDIA/nccl/pull/1618", "A connection could not be made"},
	{"socket-no-warning.log", "NVIDIA/nccl/issues/1099", "NCCL reports a system error"},
	{"fastsocket-warn-works.log", "google/nccl-fastsocket/issues/4", ""},
	{"connection-abort.log", "NVIDIA/nccl-tests/issues/166", "The peer cannot be reached"},
	{"gid-0-fe80-debug-221.log", "NVIDIA/nccl/issues/1657", "RoCE v1 or link-local GID"},
	{"gid-1-fe80-devinfo.log", "NVIDIA/nccl/issues/769", "The peer's address does not answer"},
	{"show-gids-only.log", "NVIDIA/nccl/issues/1131", ""},
	{"show-gids-vlan.log", "tensorflow/tensorflow/issues/22077", ""},
	{"macvlan-two-pods-213.log", "k8snetworkplumbingwg/multus-cni/issues/1100", ""},
	{"mooncake-rtr-fe80.log", "kvcache-ai/Mooncake/issues/204", "The peer's address does not answer"},
	{"ibstat-table.log", "microsoft/mscclpp/issues/431", ""},
	{"reset-by-peer-185.log", "NVIDIA/nccl-tests/issues/185", "A peer closed the connection"},
	{"nosuchdevice-925.log", "NVIDIA/nccl/issues/925", "GID of another network namespace"},
	{"nccl-tests-two-node-roce-210.log", "NVIDIA/nccl-tests/issues/133", ""},
	{"c10d-port-in-use.log", "huggingface/accelerate/issues/2246", "The port is taken"},
	{"many-veth-27.log", "facebookresearch/deit/issues/28", ""},
	{"single-node-ib-disabled.log", "open-compass/VLMEvalKit/issues/975", ""},
	{"socket-recv-opid-traceback.log", "NVIDIA/nccl/issues/952", "A peer closed the connection"},
	{"fine-channels-no-gdr-gid3.log", "autoscriptlabs/nccl-mesh-plugin/issues/56", ""},
	{"wifi-bootstrap-hang.log", "vllm-project/vllm/issues/5484", ""},
	{"error12-plugin-traceback.log", "deepspeedai/DeepSpeed/issues/2931", "Packets are lost, or the peer is gone"},
	{"accelerate-lambda-socket.log", "huggingface/accelerate/issues/1317", ""},
	{"sglang-12-then-5.log", "sgl-project/sglang/issues/4857", "Packets are lost, or the peer is gone"},
	{"different-subnet-bootstrap.log", "NVIDIA/nccl-tests/issues/179", ""},
	{"ip6tnl-linklocal-25.log", "NVIDIA/nccl/issues/529", "Link-local address for bootstrap"},
	{"mixed-roce-iwarp.log", "pytorch/pytorch/issues/81628", "Packets are lost, or the peer is gone"},
	{"reset-traceback-221.log", "NVIDIA/nccl/issues/2076", "A peer closed the connection"},
	{"error12-one-line-traceback.log", "tatsu-lab/stanford_alpaca/issues/207", "Packets are lost, or the peer is gone"},
	{"ofi-undeliverable.log", "NVIDIA/nccl/issues/1928", "libfabric reports an error"},
	{"net-recv-broken-pipe.log", "NVIDIA/nccl/issues/795", "A peer closed the connection"},
	{"net-closed-traceback-214.log", "NVIDIA/nccl/issues/1514", "A peer closed the connection"},
	{"ipc-peer-access-ray.log", "ray-project/ray_lightning/issues/24", "GPUs cannot reach each other"},
	{"cumem-host-217.log", "NVIDIA/nccl/issues/1838", "Shared memory of CUDA cannot be used"},
	{"cuda-oom.log", "NVIDIA/nccl/issues/1235", "GPU memory is full"},
	{"ofi-getinfo-container.log", "aws/aws-ofi-nccl/issues/1020", "AWS's plugin found no EFA"},
	{"ofi-no-optimal-provider.log", "NVIDIA/nccl/issues/229", ""},
	{"ofi-fine-210.log", "aws/aws-ofi-nccl/issues/161", ""},
	{"error4-fe80-ib0.log", "NVIDIA/nccl/issues/928", "Memory protection error"},
	{"async-catastrophic.log", "NVIDIA/nccl/issues/230", "The NIC failed"},
	{"access-violation-status9.log", "NVIDIA/nccl/issues/1710", "The NIC refused a request"},
	{"async-fatal-status4.log", "NVIDIA/nccl/issues/1905", "Memory protection error"},
	{"port-error-events.log", "NVIDIA/nccl/issues/905", "A port went down or came up"},
	{"qp-invalid-request.log", "NVIDIA/nccl/issues/1919", "The peer's request was invalid"},
	{"vm-gdr-error4.log", "NVIDIA/nccl/issues/660", "Memory protection error"},
	{"spark-ring-110.log", "eugr/spark-vllm-docker/issues/252", "The peer's address does not answer"},
	{"modify-qp-nosuchdevice-27.log", "NVIDIA/nccl/issues/799", "GID of another network namespace"},
	{"lo-refused-23.log", "horovod/horovod/issues/584", "Bootstrap over a local interface"},
	{"docker-bridge-24.log", "NVIDIA/nccl/issues/367", "Bootstrap over Docker's own network"},
	{"ofi-and-sockets.log", "aws/aws-ofi-nccl/issues/715", "The ranks use different networks"},
	{"legacy-register-226.log", "NVIDIA/nccl/issues/1704", "CUDA's cuMem calls fail"},
	{"mempool-not-supported.log", "meta-pytorch/torchtune/issues/2556", "CUDA's memory pools are not supported"},
	{"shm-in-prose.log", "fal-ai-community/video-diffusion-speedrun/issues/2", "Shared memory cannot be used"},
	{"host-not-found.log", "kubeflow/pytorch-operator/issues/125", "A host name is not known"},
	{"ofi-endpoint.log", "aws/aws-ofi-nccl/issues/889", "AWS's plugin reports an error"},
	{"ofi-old-no-provider.log", "aws/aws-ofi-nccl/issues/67", "AWS's plugin found no EFA"},
	{"ibstatus-both-kinds.log", "NVIDIA/nccl/issues/1412", "InfiniBand and RoCE are mixed"},
	{"trtllm-internal.log", "NVIDIA/TensorRT-LLM/issues/213", "NCCL reports an internal error"},
	{"rank-not-set.log", "vllm-project/vllm/issues/7466", "The ranks' variables are missing"},
	{"launch-timed-out.log", "NVIDIA/pyxis/issues/107", "Slurm cannot start the tasks"},
	{"ucx-create-ah.log", "NVIDIA/nccl/issues/1467", "The peer's address does not answer"},
	{"mapping-205.log", "aikitoria/open-gpu-kernel-modules/issues/38", "GPUs cannot map each other's memory"},
	{"named-symbol-219.log", "NVIDIA/nccl/issues/1372", "No code for this GPU"},
	{"real-path-vm-27.log", "NVIDIA/nccl/issues/573", "A device of the topology is not in /sys"},
	{"cuda-999-wsl.log", "NVIDIA/nccl/issues/1653", "CUDA's cuMem calls fail"},
	{"usb-nic-topology.log", "NVIDIA/nccl/issues/1125", "The topology cannot be read"},
	{"efa-static-topology.log", "aws/aws-ofi-nccl/issues/785", "The topology file does not fit the job"},
	{"efa-xml-nodes.log", "aws/aws-ofi-nccl/pull/1226", "NCCL's table of devices is full"},
	{"sharp-no-job.log", "NVIDIA/nccl/issues/1050", "SHARP cannot be used"},
	{"sharp-tree-lock.log", "Mellanox/nccl-rdma-sharp-plugins/issues/151", "SHARP cannot be used"},
	{"vgpu-mempool-227.log", "NVIDIA/nccl/issues/2101", "CUDA's memory pools are not supported"},
	{"windows-space-230.log", "NVIDIA/nccl/issues/2331", "The address space for windows is full"},
	{"libcuda-wsl-218.log", "vllm-project/vllm/issues/3710", "NCCL does not find libcuda.so"},
	{"efa-endpoint-221.log", "aws/aws-ofi-nccl/issues/889", "AWS's plugin reports an error"},
	{"gke-shim-mismatch.log", "NVIDIA/aicr/pull/1647", "Google's plugin recommends another setting"},
	{"pfn-vllm-221.log", "vllm-project/vllm/issues/18731", "The driver lacks functions"},
}

// TestThreads: explain names the cause that a public thread found, and claims none where the thread found none.
func TestThreads(t *testing.T) {
	files, err := os.ReadDir("testdata/threads")
	if err != nil || len(files) != len(threads) {
		t.Fatal(len(files), len(threads), err)
	}
	for _, th := range threads {
		text, err := os.ReadFile(filepath.Join("testdata/threads", th.file))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), "\n"); n > 12 {
			t.Errorf("%s has %d lines", th.file, n)
		}
		got := Explain(th.file, string(text), nil, fabric.Invocation{})
		named := slices.ContainsFunc(got.Findings, func(f Finding) bool { return f.Summary == th.named })
		claimed := slices.ContainsFunc(got.Findings, func(f Finding) bool { return f.Severity == env.Error && f.Summary != unknownException.summary })
		wrong := !named
		switch th.named {
		case "":
			wrong = claimed
		case "unknown":
			wrong = claimed || got.Sound()
		}
		if wrong {
			t.Errorf("%s (%s): want %q, got %s", th.file, th.thread, th.named, asText(got))
		}
	}
}
