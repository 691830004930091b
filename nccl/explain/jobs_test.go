package explain

import (
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
)

// TestJobsAreChecked: what launchers, containers and firewalls say together is wrong, or is not.
// overLo is the beginning of NCCL's log on a host that has only the loopback interface for it.
const overLo = "a:1:1 [0] NCCL INFO Bootstrap: Using lo:127.0.0.1<0>\n"

func TestJobsAreChecked(t *testing.T) {
	const realPath = "a:1:3 [0] misc/topo.cc:22 NCCL WARN Could not find real path of /sys/class/pci_bus/0000:02/../../0000:02:00.0\n"
	const direct = "a:1:3 [0] NCCL INFO Channel 00 : 0[1000] -> 1[2000] via P2P/IPC\n"
	const complete = "a:1:3 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1000 - Init COMPLETE\na:2:4 [1] NCCL INFO comm 0x2 rank 1 nranks 2 cudaDev 1 busId 2000 - Init COMPLETE\n"
	for _, c := range []struct{ name, text, says, notSays string }{
		{"a.sh", "torchrun --nnodes=2 --node_rank=1 --master_addr=localhost train.py\n", "error:  Ranks meet at localhost", ""},
		{"a.sh", "torchrun --nnodes=1:4 --rdzv-endpoint=127.0.0.1:29500 train.py\n", "the job has 4 hosts", ""},
		{"a.yaml", "kind: MPIJob\nspec:\n  mpiReplicaSpecs:\n    Launcher:\n      template:\n        spec:\n          containers:\n          - name: l\n            securityContext:\n              capabilities:\n                add: [\"IPC_LOCK\"]\n            command: [mpirun, -np, \"4\"]\n            args: [\"mpirun -np 4 -N 2 -x NCCL_NET=IB -x NCCL_IB_HCA=mlx5 all_reduce_perf -b 8 -e 8G -g 4\"]\n    Worker:\n      template:\n        spec:\n          containers:\n          - name: w\n            resources:\n              limits:\n                nvidia.com/gpu: 2\n                rdma/hca: 1\n", "error:  More GPUs than a pod has", ""}, // Project-HAMi/volcano-vgpu-device-plugin#105
		{"a.yaml", "kind: MPIJob\nspec:\n  mpiReplicaSpecs:\n    Launcher:\n      template:\n        spec:\n          containers:\n          - name: l\n            securityContext:\n              capabilities:\n                add: [\"IPC_LOCK\"]\n            command: [mpirun, -np, \"4\"]\n            args: [\"mpirun -np 4 -N 2 -x NCCL_NET=IB -x NCCL_IB_HCA=mlx5 all_reduce_perf -b 8 -e 8G -g 1\"]\n    Worker:\n      template:\n        spec:\n          containers:\n          - name: w\n            resources:\n              limits:\n                nvidia.com/gpu: 2\n                rdma/hca: 1\n", "the workers', which run the ranks, have it not", "More GPUs than a pod has"},
		{"a.sh", "export MASTER_ADDR=$(scontrol show hostnames \"$SLURM_NODELIST\" | head -n1 || echo localhost)\ntorchrun --nnodes=2 --master_addr=$MASTER_ADDR a.py\n", "line 1: warning:  Ranks may meet at localhost", ""}, // mlc-ai/pith-train/pull/91
		{"a.sh", "torchrun --standalone --nnodes=2 --node_rank=$RANK a.py\n", "line 1: error:  torchrun is for one host", ""},
		{"a.sh", "torchrun --standalone --nnodes=$WORLD_SIZE --master_addr=$MASTER_ADDR a.py\n", "line 1: warning:  torchrun is for one host", ""}, // openvla/openvla/issues/175
		{"a.sh", "torchrun --standalone --nnodes=1 --nproc_per_node=8 a.py\n", "", "is for one host"},
		{"a.sh", "A+=(--rdzv-backend=c10d --rdzv-endpoint=${SLURM_LAUNCH_NODE_IPADDR:-localhost}:15213)\ntorchrun \"${A[@]}\" a.py\n", "line 1: warning:  Ranks may meet outside of the job", ""}, // mlc-ai/pith-train/pull/47
		{"a.sh", "#SBATCH -N 2\nsrun torchrun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=$SLURM_LAUNCH_NODE_IPADDR:15213 a.py\n", "", "outside of the job"},
		{"a.sh", "H=$(hostname -s || echo localhost)\ntorchrun --nnodes=1 a.py\n", "", "may meet"},
		{"a.txt", "$ kubectl describe node a\nAllocatable:\n  cpu:  96\n  rdma/hca_shared_devices_a:  0\n", "line 4: error:  A device plugin offers nothing", ""},
		{"a.txt", "\"allocatable\": {\n  \"openshift.io/mlnxnics\": \"0\",\n  \"pods\": \"110\"\n}\n", "line 2: error:  A device plugin offers nothing", ""},
		{"a.txt", "Allocatable:\n  nvidia.com/gpu:  0\n  nvidia.com/mig-1g.5gb:  7\n  hugepages-1Gi:  0\n", "", "offers nothing"},
		{"a.log", "[rank5]:[E602 11:17:52.185053341 ProcessGroupNCCL.cpp:632] [Rank 5] Watchdog caught collective operati\n", "error:  PyTorch's watchdog stopped the job", ""},                                                                                                                                                                              // hiyouga/LlamaFactory/issues/8261
		{"a.log", "[W socket.cpp:697] [c10d] The client socket has failed to connect to [::ffff:0.104.99.143]:47389 (errno: 110 - Connection timed out).\n[W socket.cpp:697] [c10d] The client socket has failed to connect to 0.104.99.143:47389 (errno: 110 - Connection timed out).\n", "error:  A host's name is read as an address", "does not answer"}, // hpcaitech/Open-Sora/issues/667
		{"a.txt", "I always got `torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError`:\n```\n#!/bin/bash -l\n#SBATCH --nodes=2\n", "error:  Ranks did not all come", ""},                                                                                                                                                                         // princeton-nlp/ProLong/issues/9
		{"a.txt", "[2023-06-03 12:26:34,174] [INFO] [runner.py:541:main] cmd = python -u -m deepspeed.launcher.launch --master_addr=127.0.0.1 --master_port=42 train.py\n", "line 1: warning:  The port needs root", ""},                                                                                                                                     // yuanzhoulvpi2017/zero_nlp/issues/118
		{"a.sh", "export MASTER_PORT=29500\ntorchrun --master_port=29500 a.py\n", "", "needs root"},
		{"a.sh", "NCCL_DEBUG=INFO\nNCCL_IB_HCA==mlx5_0\npython a.py\n", "line 1: warning: NCCL_DEBUG Not exported", ""},
		{"a.sh", "NCCL_DEBUG=INFO\nexport A=1 NCCL_DEBUG\npython a.py\n", "", "Not exported"},
		{"a.sh", "NCCL_DEBUG=INFO\nmpirun -np 2 -x NCCL_DEBUG=$NCCL_DEBUG python a.py\n", "", "Not exported"},
		{"a.sh", "set -a\nNCCL_DEBUG=INFO\npython a.py\n", "", "Not exported"},
		{"a.sh", "NCCL_DEBUG=INFO python a.py\n", "", "Not exported"},
		{"a.sh", "export NCCL_DEBUG=INFO\nNCCL_DEBUG=WARN\npython a.py\n", "", "Not exported"},
		{"a.txt", "NCCL_DEBUG=INFO\n\npython a.py\n", "", "Not exported"},
		{"a.sh", "export NCCL_DEBUG=INFO\nsudo torchrun a.py\n", "line 2: warning: NCCL_DEBUG sudo removes it", ""},
		{"a.sh", "export NCCL_DEBUG=INFO\nsudo -E torchrun a.py\nsudo sysctl -w a=1\n", "", "sudo removes"},
		{"a.txt", "torchrun --standalone --nnodes=1 --nproc_per_node=2 train.py --local_rank 0\n", "line 1: error:  Every process gets one local rank", ""}, // pytorch/pytorch/issues/85604
		{"a.txt", "torchrun --nproc_per_node=1 train.py --local_rank 0\n", "", "one local rank"},
		{"a.txt", "python train.py --local_rank 0\n", "", "one local rank"},
		{"a.yaml", "apiVersion: v1\nkind: Pod\nspec:\n  hostNetwork: \"true\"\n", "line 4: error:  Text instead of a boolean", ""}, // kubeflow/mpi-operator/issues/219
		{"a.yaml", "apiVersion: v1\nkind: Pod\nspec:\n  hostNetwork: true\n", "", "Text instead"},
		{"a.py", "import torch\nimport torch.distributed as dist\ndist.init_process_group(backend=\"nccl\", rank=rank)\n", "line 3: warning:  The processes do not choose a GPU", ""}, // pytorch/pytorch/issues/46259
		{"a.py", "import torch\ntorch.cuda.set_device(local_rank)\ndist.init_process_group(\"nccl\", rank=rank)\n", "", "do not choose"},
		{"a.py", "import torch\ndist.init_process_group(\"gloo\", rank=rank)\n", "", "do not choose"},
		{"a.py", "if rank != 3:\n    torch.distributed.barrier()\nprint(rank)\n", "line 2: warning:  Not all ranks call a collective", ""},                 // pytorch/pytorch/issues/138322
		{"a.py", "if accelerator.is_main_process:\n    a = 1\n\n    accelerator.save_state(a)\n", "line 4: warning:  Not all ranks call a collective", ""}, // declare-lab/nora/issues/8
		{"a.py", "if rank != 0:\n    dist.barrier()\nload()\nif rank == 0:\n    dist.barrier()\n", "", "Not all ranks"},
		{"a.py", "if rank == 0:\n    load()\ndist.barrier()\n", "", "Not all ranks"},
		{"a.txt", "My script:\n#!/bin/bash\n#SBATCH -N 2\nsrun python a.py\n", "", "does not read"},
		{"a.sbatch", "#!/bin/bash\n#SBATCH -N 2\n# a\nmodule load cuda\n#SBATCH --ntasks-per-node=8\nsrun python a.py\n", "line 5: error:  Slurm does not read the option", ""},
		{"a.sbatch", "#!/bin/bash\n\n#SBATCH -N 2\n# a\n#SBATCH --ntasks-per-node=8\nsrun python a.py\n##SBATCH -p a\n", "", "Slurm does not read"},
		{"a.sh", "docker run --ipc=host vllm/vllm-openai --model m --tensor-parallel-size 2\n", "line 1: warning:  The container has no GPUs", ""},
		{"a.sh", "docker run --ipc=host --gpus all vllm/vllm-openai --model m --tensor-parallel-size 2\ndocker run $ARGS i torchrun a.py\ndocker run -e A=1 redis\n", "", "has no GPUs"},
		{"a.sh", "docker run --gpus all --ipc=host i ray start --head --block\n", "line 1: warning:  The container has a network of its own", ""},
		{"a.sh", "docker run --gpus all --ipc=host --net host i ray start --head --block\n", "", "network of its own"},
		{"a.sh", "torchrun --nnodes=2 --nproc_per_node 8 --node_rank 1 a.py\n", "line 1: error:  The hosts do not meet", ""},
		{"a.sh", "torchrun --nnodes=2 $ARGS a.py\ntorchrun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=h:1 a.py\ntorchrun --nnodes=1:2 a.py\nexport PET_MASTER_ADDR=h\n", "", "do not meet"},
		{"a.sh", "torchrun --nnodes=2 --nproc_per_node $N --master_addr $A a.py\n", "", "do not meet"},
		{"a.yaml", "num_machines: 2\nmain_process_ip: null\n", "line 2: warning:  The hosts do not meet", ""},
		{"a.yaml", "num_machines: 1\nmain_process_ip: null\n", "", "do not meet"},
		{"a.yaml", "num_machines: 2\nmain_process_ip: null\n# accelerate launch --main_process_ip h a.py\n", "", "Ranks meet at localhost"},
		{"a.sh", "export NNODES=2\nexport MASTER_ADDR=0.0.0.0\n", "line 2: error:  Ranks meet at localhost", ""},
		{"a.sh", "export UCX_NET_DEVICES=mlx5_0:1,mlx5_1\n", "line 1: warning: UCX_NET_DEVICES RDMA device without its port", ""},
		{"a.sh", "export UCX_NET_DEVICES=mlx5_0:1,eth0\n", "", "without its port"},
		{"a.py", "import torch\ndist.init_process_group('nccl')\nm = DDP(net, device_ids=[0])\n", "line 3: warning:  All processes may use GPU 0", ""},
		{"a.py", "dist.init_process_group('nccl')\ntorch.cuda.set_device(int(os.environ['LOCAL_RANK']))\nm = DDP(net, device_ids=[0])\n", "", "use GPU 0"},
		{"a.py", "m = net.to('cuda:0')\n", "", "use GPU 0"},
		{"a.yaml", "main_process_ip: setup@10.0.0.1\nnum_machines: 2\n", "line 1: error:  Not the name of a host", ""},
		{"a.sh", "torchrun --nnodes=2 --master_addr=tcp://10.0.0.1 a.py\n", "line 1: error:  Not the name of a host", ""},
		{"a.sh", "torchrun --nnodes=2 --master_addr=<ip/name> a.py\n", "", "Not the name"},
		{"a.txt", "Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n   D\\D     0      1 \n     0 673.20  13.15 \n     1  12.99 673.20 \nUnidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)\n   D\\D     0      1 \n     0 673.49   1.60 \n     1  25.00 672.33 \nBidirectional P2P=Enabled Bandwidth Matrix (GB/s)\n     0 673.49   0.60 \n", "line 5: warning:  Direct access between GPUs is slower than through the host", ""},
		{"a.txt", "Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n   D\\D     0      1 \n     0 673.20  13.15 \n     1  12.99 673.20 \nUnidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)\n   D\\D     0      1 \n     0 673.49   22.60 \n     1  25.00 672.33 \nBidirectional P2P=Enabled Bandwidth Matrix (GB/s)\n     0 673.49   0.60 \n", "nothing", "slower"},
		{"a.py", "import torch\ndist.init_process_group('gloo', init_method=\"10.0.0.1:54321\", rank=r, world_size=n)\n", "line 2: error:  The rendezvous method is not known", ""},
		{"a.py", "import torch\ndist.init_process_group('gloo', init_method=\"tcp://10.0.0.1:54321\", rank=r, world_size=n)\n", "", "not known"},
		{"a.sh", "CUDA_VISIBILE_DEVICES=1 python train.py\n", "line 1: error: CUDA_VISIBILE_DEVICES Unknown variable", ""},
		{"a.sbatch", "#!/bin/bash\n#SBATCH -N 2\n#SBATCH --gres=gpu:2\nsrun python a.py\n", "line 4: warning:  One task for several GPUs", ""},
		{"a.sbatch", "#!/bin/bash\n#SBATCH -N 2\n#SBATCH --gres=gpu:2\n#SBATCH --ntasks-per-node=2\nsrun python a.py\n", "", "One task"},
		{"a.sbatch", "#!/bin/bash\n#SBATCH -N 2\n#SBATCH --gres=gpu:2\nsrun python -m torch.distributed.run a.py\n", "", "One task"},
		{"a.sbatch", "#!/bin/bash\n#SBATCH -N 2\n#SBATCH --gres=gpu:1\nsrun python a.py\n", "", "One task"},
		{"a.txt", "On one host I solved it by setting\n`export NCCL_P2P_DISABLE=1`.\n", "line 2: warning: NCCL_P2P_DISABLE Direct access between GPUs does not work", ""},
		{"a.txt", "It hung; this fixed it:\n\nexport NCCL_P2P_DISABLE=\"1\"\n", "line 3: warning: NCCL_P2P_DISABLE Direct access between GPUs does not work", ""},
		{"a.txt", "Workaround:\n\nNCCL_P2P_DISABLE=1 python a.py\n", "line 3: warning: NCCL_P2P_DISABLE Direct access between GPUs does not work", ""},
		{"a.txt", "It does not work with\n`export NCCL_P2P_DISABLE=1`.\n", "", "Direct access between"},
		{"a.sh", "# node 1\nexport NCCL_SOCKET_IFNAME==eth1\n\n# node 2\nexport NCCL_SOCKET_IFNAME==eth2\n", "", "Set twice"},
		{"a.sh", "# a\nexport NCCL_SOCKET_IFNAME==eth1\n\n# b\nexport NCCL_SOCKET_IFNAME==eth2\n", "Set twice, differently", ""},
		{"a.sh", "mpirun -np 2 -H a,b --mca btl ^tcp -x NCCL_DEBUG=INFO python a.py\n", "line 1: warning:  MPI has no TCP between hosts", ""},
		{"a.sh", "mpirun -np 2 -H a,b --mca btl ^openib -x NCCL_DEBUG=INFO python a.py\nmpirun -np 2 --mca btl ^tcp ./a\n", "", "has no TCP"},
		{"a.sh", "torchrun --nnodes=2 --master_addr=h --rdzv_backend=c10d a.py\n", "line 1: error:  The hosts do not meet", ""},
		{"a.sh", "NCCL_DEBUG=INFO torchrun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=:29600 a.py\n", "line 1: error:  The rendezvous address is not valid", ""},
		{"a.sh", "torchrun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=h:29600 a.py\n", "", "not valid"},
		{"a.log", "a:1:2 [0] NCCL INFO Using network IB\n**NCCL_P2P_DISABLE=1** ./all_reduce_perf -b 8\n", "Direct paths between GPUs are disabled", "Not a number"},
		{"a.sh", "python -m torch.distributed.run --nnodes=2 --rdzv_id=ID1--rdzv_backend=c10d a.py\n", "error:  A blank is missing between two options", ""}, // pytorch/pytorch#79388
		{"a.sh", "python -m torch.distributed.run --nnodes=2 --rdzv_id=ID--1 --rdzv_backend=c10d a.py\n", "", "A blank is missing"},
		{"a.txt", "$ df -h\nFilesystem      Size  Used Avail Use% Mounted on\nshm              64M   20M   45M  31% /dev/shm\n", "warning:  Little shared memory", ""}, // vllm-project/vllm#789
		{"a.txt", "$ df -h\nshm              16G   16G     0  100% /dev/shm\n", "error:  /dev/shm is too small", ""},
		{"a.txt", "$ df -h\nshm              16G   1G     15G  7% /dev/shm\n", "", "/dev/shm is too small"},
		{"a.sh", "docker run --gpus all --ipc=host --ulimit memlock=1 --device /dev/infiniband -e NCCL_IB_HCA==mlx5_0 i\n", "line 1: error:  memlock is limited", ""},
		{"a.sh", "docker run --gpus all --ipc=host --ulimit memlock=-1 --device /dev/infiniband -e NCCL_IB_HCA==mlx5_0 i\n", "", "memlock is"},
		{"a.sh", "O=\"NCCL_DEBUG=INFO NCCL_IB_TIMEOUT=22\"\neval $O python a.py\n", "2 settings", "Unknown word"},
		{"a.sh", "ray start --address=localhost:6379\n", "line 1: warning:  Ray joins the same host", ""},
		{"a.sh", "ray start --address=10.0.0.1:6379\n", "", "the same host"},
		{"a.sh", "export CUDA_VISIBLE_DEVICES=0\nmpirun -np 2 -H a,b ./all_reduce_perf\n", "line 1: warning: CUDA_VISIBLE_DEVICES Not set on the other hosts", ""},
		{"a.sh", "export NCCL_IB_CUDA_SUPPORT=1\nmpirun -np 2 -H a,b ./all_reduce_perf\n", "NCCL_IB_CUDA_SUPPORT Variable that NCCL no longer reads", "Not set on the other hosts"},
		{"a.sh", "export NCCL_LAUNCH_MODE=PARALLEL\nmpirun -np 2 -H a,b ./all_reduce_perf\n", "NCCL_LAUNCH_MODE Equal to NCCL's default", "Not set on the other hosts"},
		{"a.sh", "export NCCL_DEBUG=INFO\nexport NCCL_DEBUGG=INFO\nmpirun -np 2 -H a,b ./all_reduce_perf\n", "NCCL_DEBUG Not set on the other hosts", "NCCL_DEBUGG Not set on the other hosts"},
		{"a.sh", "export CUDA_VISIBLE_DEVICES=0\nmpirun -np 2 ./all_reduce_perf\n", "", "Not set on"},
		{"a.sh", "torchrun --nnodes=1 --master_addr=localhost train.py\nexport NCCL_SOCKET_IFNAME==lo\n", "", "his host alone"},
		{"a.sh", "torchrun --nnodes=2 --master_addr=10.0.0.1 train.py\n", "", "localhost"},
		{"a.sbatch", "#!/bin/bash\n#SBATCH --ntasks=1\n#SBATCH --ntasks-per-node=2\nexport NCCL_DEBUG=INFO\nsrun python a.py\n", "line 2: warning:  Fewer tasks than --ntasks-per-node", ""},
		{"a.sbatch", "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks=4\n#SBATCH --ntasks-per-node=2\nexport NCCL_DEBUG=INFO\nsrun python a.py\n", "", "Fewer tasks"},
		{"a.sh", "srun --nodelist=a accelerate launch a.py\nsrun --nodelist=b accelerate launch a.py\n", "warning:  srun after srun", ""},
		{"a.sh", "srun --nodelist=a accelerate launch a.py &\nsrun --nodelist=b accelerate launch a.py &\nwait\n", "", "srun after srun"},
		{"a.sh", "export VLLM_HOST_IP=0.0.0.0\nexport NCCL_DEBUG=INFO\n", "VLLM_HOST_IP is not a host's own address", ""},
		{"a.sh", "export VLLM_HOST_IP=127.0.0.1\nexport NCCL_DEBUG=INFO\n", "", "VLLM_HOST_IP is"},
		{"a.sh", "FORCE_TORCHRUN=1 NNODES=2 RANK=1 MASTER_ADDR=10.0.0.1 llamafactory-cli train a.yaml\n", "Write NODE_RANK=0", ""},
		{"a.sh", "FORCE_TORCHRUN=1 NNODES=2 NODE_RANK=1 MASTER_ADDR=10.0.0.1 llamafactory-cli train a.yaml\n", "", "Write NODE_RANK=0"},
		{"a.sh", "torchrun --nnodes=2 --node_rank=0 --master_addr=localhost train.py\n", "warning:  Ranks meet at localhost", ""},
		{"a.sbatch", "#!/bin/bash\n#SBATCH --nodes=4\nexport MASTER_ADDR=127.0.0.1\nsrun python a.py\n", "line 3: error:  Ranks meet at localhost", ""},
		{"a.yaml", "main_process_ip: localhost\nnum_machines: 2\n", "Ranks meet at localhost", ""},
		{"a.sbatch", "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=8\nexport WORLD_SIZE=8\nsrun python a.py\n", "starts 8 tasks on each of 2 hosts", ""},
		{"a.sbatch", "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=8\nexport WORLD_SIZE=16\nsrun python a.py\n", "", "WORLD_SIZE"},
		{"a.sh", "export NCCL_SOCKET_IFNAME==docker0\ntorchrun --nnodes=2 a.py\n", "error: NCCL_SOCKET_IFNAME Interface of this host alone", ""},
		{"a.sh", "export NCCL_SOCKET_IFNAME=^lo,docker\ntorchrun --nnodes=2 a.py\n", "", "his host alone"},
		{"a.sh", "docker run --gpus all --ipc=host i torchrun --nnodes=2 a.py\n", "Add --network=host.", "Little shared memory"},
		{"a.sh", "docker run --gpus all --network host i torchrun --nnodes=2 a.py\n", "Add --shm-size=8g", "network of its own"},
		{"compose.yaml", "services:\n  a:\n    runtime: nvidia\n    environment:\n      NCCL_DEBUG: INFO\n", "Add shm_size", ""},
		{"a.yaml", "apiVersion: v1\nkind: Pod\nspec:\n  env:\n  - name: NCCL_IB_HCA\n    value: =mlx5_0\n  limits:\n    nvidia.com/gpu: 8\n", "Request the resource of an RDMA device plugin", ""},
		{"a.yaml", "apiVersion: v1\nkind: Pod\nspec:\n  env:\n  - name: NCCL_IB_HCA\n    value: =mlx5_0\n  limits:\n    nvidia.com/gpu: 8\n    openshift.io/nics: 1\n", "it has 64 MiB there", "No RDMA devices"},
		{"a.sh", "ulimit -l 64\nexport NCCL_DEBUG=INFO\n", "limits locked memory to 64 KiB", ""},
		{"a.sh", "ulimit -l unlimited\nexport NCCL_DEBUG=INFO\n", "", "memlock"},
		{"a.sh", "ufw allow 29500/tcp\ntorchrun --nnodes=2 --master_addr=10.0.0.1 --master_port=29500 a.py\n", "One open port is not enough", ""},
		{"a.sh", "ufw allow 29500:65535/tcp\ntorchrun --nnodes=2 --master_addr=10.0.0.1 --master_port=29500 a.py\n", "", "One open port"},
		{"a.sh", "torchrun --nnodes=2 --node_rank=0 --rdzv_backend=c10d --rdzv_endpoint=$(hostname) a.py\n", "line 1: warning:  Ranks meet at each host's own name", ""}, // NVIDIA/nvidia-resiliency-ext/issues/142
		{"a.sh", "#SBATCH -N 2\nsrun torchrun --nnodes=2 --rdzv_backend=c10d --rdzv_endpoint=$(hostname):29500 a.py\n", "", "own name"},
		{"a.sh", "torchrun --nnodes=1 --rdzv_endpoint=$(hostname):29500 a.py\n", "", "own name"},
		{"a.sh", "deepspeed --hostfile h --num_nodes 2 --master_addr localhost a.py\n", "Ranks meet at localhost", ""},
		{"a.sh", "deepspeed --num_nodes 1 --master_addr localhost a.py\n", "", "localhost"},
		{"a.txt", "torchrun --nnodes=2 a.py\nos.environ['MASTER_ADDR'] = 'localhost'\n", "Ranks meet at localhost", ""},
		{"a.py", "import os\nos.environ.setdefault(\"MASTER_ADDR\", \"localhost\")\nos.environ[\"NCCL_DEBUG\"] = \"INFO\"\n", "", "meet at localhost"},
		{"compose.yaml", "services:\n  a:\n    runtime: nvidia\n    shm_size: 64mb\n    environment:\n      NCCL_DEBUG: INFO\n", "Docker's own 64 MiB", ""},
		{"compose.yaml", "services:\n  a:\n    runtime: nvidia\n    shm_size: '16gb'\n    environment:\n      NCCL_DEBUG: INFO\n", "", "shared memory"},
		{"compose.yaml", "services:\n  a:\n    runtime: nvidia\n    shm_size: 17179869184\n    environment:\n      NCCL_DEBUG: INFO\n", "", "shared memory"},
		{"a.sh", "docker run --gpus all --shm-size=64m --net=host i torchrun --nnodes=2 a.py\n", "Docker's own 64 MiB", ""},
		{"a.sh", "docker run --gpus all --shm-size 10.24g --net=host i torchrun --nnodes=2 a.py\n", "", "shared memory"},
		{"a.sh", "docker run --gpus all --shm-size 1g --net=host i torchrun --nnodes=2 a.py\n", "", "shared memory"},
		{"a.txt", "eth1: flags=4099<UP,BROADCAST,MULTICAST>  mtu 1500\nexport NCCL_SOCKET_IFNAME==eth1\n", "Interface without a link", ""},
		{"a.txt", "3: eth1: <NO-CARRIER,BROADCAST,MULTICAST,UP> mtu 9000 qdisc mq state DOWN\nexport NCCL_SOCKET_IFNAME==eth1\n", "Interface without a link", ""},
		{"a.txt", "3: eth1: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 9000 qdisc mq state UP\nexport NCCL_SOCKET_IFNAME==eth1\n", "", "without a link"},
		{"a.txt", "3: eth1: <NO-CARRIER,BROADCAST,MULTICAST,UP> mtu 9000\nexport NCCL_SOCKET_IFNAME=^eth1\n", "", "without a link"},
		{"a.log", "a:1:2 [0] NCCL INFO Plugin Path : /opt/hpcx/lib/libnccl-net.so\nb:1:2 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.\n", "Hosts use different network plugins", ""},
		{"a.log", "a:1:2 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.\nb:1:2 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.\n", "", "plugins"},
		{"a.log", "NCCL INFO Bootstrap : Using lo:127.0.0.1<0>\nNCCL INFO NET/Socket : Using [0]lo:127.0.0.1<0>\nNCCL INFO Using network Socket\nNCCL INFO comm 0x7f rank 1 nranks 2 cudaDev 0 busId 89000 - Init COMPLETE\n", "", "local interface"},
		{"a.log", "a:1:2 [0] NCCL INFO Bootstrap : Using lo:127.0.0.1<0>\na:1:2 [0] NCCL INFO NET/Socket : Using [0]lo:127.0.0.1<0>\na:1:2 [0] NCCL INFO Using network Socket\n", "Bootstrap over a local interface", ""},
		{"a.txt", "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong\n  8  2  float  sum  -1  3.1  0.00  0.00  0  3.6  0.00  0.00  0\n  16  4  float  sum  -1  3.1  0.00  0.00  0  3.6  0.00  0.00  12\n", "At 16 bytes", ""},
		{"a.txt", "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong\n  8  2  float  sum  -1  3.1  0.00  0.00  0  3.6  0.00  0.00  0\n  16  4  float  sum  -1  3.1  0.00  0.00  N/A  3.6  0.00  0.00  N/A\n", "", "wrong"},
		{"a.txt", "# nThread 1 nGpus 1 minBytes 8\n# Out of bounds values : 2 FAILED\n# Avg bus bandwidth    : 0.14\n", "line 2: error:  Results are wrong", ""},
		{"a.txt", "# nThread 1 nGpus 1 minBytes 8\n# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 0.14\n", "", "nothing:"},
		{"a.txt", "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 0.14 FAILED\n", "line 2: error:  Slower than required", "wrong"},
		{"a.txt", "$ mpirun -np 2 ./all_reduce_perf -g 1\n#  Rank  0 Group  0 Pid 149 on gpu1 device  0 [0x07] NVIDIA H100\n#  Rank  0 Group  0 Pid 150 on gpu1 device  0 [0x07] NVIDIA H100\n# Avg bus bandwidth    : 0\n", "line 3: error:  Each process runs a test of its own", "one rank"},
		{"a.txt", "#  Rank  0 Group  0 Pid 149 on gpu1 device  0 [0x07] NVIDIA H100\n# Avg bus bandwidth    : 0\n", "line 2: warning:  The test has one rank", ""},
		{"a.txt", "#  Rank  0 Pid 9 on a device  0 [0x07] H\n# Avg bus bandwidth    : 9\n#  Rank  0 Pid 10 on a device  0 [0x07] H\n# Avg bus bandwidth    : 9\n", "", "of its own"},
		{"a.sh", "torchrun --nnodes=2 --node-rank=0 --master-addr=10.0.0.1 --master-port=29500 t.py\ntorchrun --nnodes=2 --node-rank=1 --master-addr=10.0.0.2 --master-port=29500 t.py\n", "line 2: error:  Hosts meet at different places", ""},
		{"a.sh", "torchrun --nnodes=2 --node-rank=0 --master-addr=10.0.0.1 --master-port=29500 t.py\ntorchrun --nnodes=2 --node-rank=1 --master-addr=10.0.0.1 --master-port=29501 t.py\n", "line 2: error:  Hosts meet at different places", ""},
		{"a.sh", "torchrun --nnodes=2 --node-rank=0 --master-addr=a --nproc-per-node=8 t.py\ntorchrun --nnodes=2 --node-rank=1 --master-addr=a --nproc-per-node=4 t.py\n", "line 2: warning:  Hosts start different numbers of processes", "different places"},
		{"a.sh", "torchrun --nnodes=2 --node-rank=0 --master-addr=a t.py\ntorchrun --nnodes=2 --node-rank=0 --master-addr=a t.py\n", "line 2: warning:  Hosts have one rank", ""},
		{"a.sh", "torchrun --nnodes=2 --node-rank=0 --master-addr=10.0.0.1 t.py\ntorchrun --nnodes=2 --node-rank=1 --master-addr=10.0.0.1 t.py\ntorchrun --nnodes=2 --node-rank=0 --master-addr=10.0.0.2 t.py\n", "nothing", "Hosts"},
		{"compose.yaml", "services:\n  a:\n    command: torchrun --nnodes=2 --master_addr=10.0.0.1 t.py\n    environment:\n      NCCL_DEBUG: INFO\n", "error:  The container has a network of its own", ""},
		{"compose.yaml", "services:\n  a:\n    network_mode: host\n    command: torchrun --nnodes=2 --master_addr=10.0.0.1 t.py\n    environment:\n      NCCL_SOCKET_IFNAME: =ens19f0np0\n", "", "of its own"},
		{"compose.yaml", "services:\n  a:\n    environment:\n      NCCL_SOCKET_IFNAME: =ens19f0np0\n", "line 4: error: NCCL_SOCKET_IFNAME Interface that the container does not have", ""},
		{"compose.yaml", "services:\n  a:\n    environment:\n      NCCL_SOCKET_IFNAME: =eth0\n", "", "does not have"},
		{"compose.yaml", "services:\n  a:\n    environment:\n      - NCCL_SOCKET_IFNAME=\"eth0\"\n", "line 4: error: NCCL_SOCKET_IFNAME", "Write \"=eth0\""},
		{"a.yaml", "apiVersion: v1\nkind: Pod\nspec:\n  hostNetwork: false\n  containers:\n  - env:\n    - name: NCCL_SOCKET_IFNAME\n      value: =ens19f0np0\n", "error: NCCL_SOCKET_IFNAME Interface that the container does not have", ""},
		{"a.yaml", "apiVersion: v1\nkind: Pod\nspec:\n  hostNetwork: true\n  containers:\n  - env:\n    - name: NCCL_SOCKET_IFNAME\n      value: =ens19f0np0\n", "", "does not have"},
		{"a.yaml", "env:\n- {name: NCCL_SOCKET_IFNAME, value: \"=eth1\"}\n", "1 setting", "Prefix match"},
		{"a.yaml", "apiVersion: v1\nkind: Pod\nspec:\n  env:\n  - {name: NCCL_IB_HCA, value: =mlx5_0}\n  resources: {limits: {nvidia.com/gpu: 8, rdma/hca: 1}}\n", "it has 64 MiB there", "No RDMA devices"},
		{"a.txt", "rocep39s0f0 port 1 ==> ens19f0np0 (Up)\nexport NCCL_IB_HCA=mlx5_0,mlx5_1\n", "line 2: error: NCCL_IB_HCA No device of that name", "=mlx5_0,mlx5_1\"."},
		{"a.txt", "mlx5_2 port 1 ==> eth0 (Up)\nexport NCCL_IB_HCA==mlx5_0\n", "line 2: warning: NCCL_IB_HCA No device of that name", ""},
		{"a.txt", "mlx5_2 port 1 ==> eth0 (Up)\nexport NCCL_IB_HCA=mlx5\n", "", "No device"},
		{"a.sh", "#!/bin/sh\n# fabricform render nccl -format mpirun, fabric f\nexec mpirun -np 2 --hostfile /dev/fd/3 \\\n  -x 'NCCL_SOCKET_IFNAME==eth1' ./a\n", "1 setting", "Same value"},
		{"a.sh", "#!/bin/sh\n# fabricform render nccl -format mpirun, fabric f\nexec mpirun -np 2 --hostfile /dev/fd/3 -x 'NCCL_IB_HCA==mlx5_0' \\\n  sh -c 'case \"$(uname -n)\" in\n'\\''a'\\''|'\\''a'\\''.*)\n  export NCCL_SOCKET_IFNAME='\\''=eth1'\\''\n  ;;\n'\\''b'\\'')\n  export NCCL_SOCKET_IFNAME='\\''=eth2'\\''\n  ;;\nesac\nexec \"$@\"' sh ./a\n", "3 settings", "\nline"},
		{"a.sh", "#!/bin/sh\n# fabricform render nccl -format docker, fabric f\nexec \"${DOCKER:-docker}\" run --rm --network=host -e 'GLOO_SOCKET_IFNAME=eth1' \"$@\"\n", "1 setting", "nothing:"},
		{"a.txt", "# nThread 1 nGpus 8 minBytes 8\n#\n# Using devices\n# nThread 1 nGpus 8 minBytes 8\n#\n# Using devices\n", "Each process runs a test of its own", ""},
		{"a.txt", "# nThread 1 nGpus 8 minBytes 8\n#  size  count  busbw  #wrong\n# nThread 1 nGpus 8 minBytes 8\n", "", "of its own"},
		{"a.yaml", "num_machines: 2\nmain_process_port: 99999\n", "line 2: error:  Not a TCP port", ""},
		{"a.sh", "torchrun --nnodes=2 --rdzv-endpoint=h:69420 a.py\n", "error:  Not a TCP port", ""},
		{"a.sh", "torchrun --nnodes=2 --master_addr=h --master_port=65535 a.py\n", "", "TCP port"},
		{"a.txt", "  - num_processes: 1\n  - num_machines: 2\n", "line 1: error:  Too few processes for the hosts", ""},
		{"a.sh", "accelerate launch --num_machines 2 --num_processes 3 a.py\n", "error:  Too few processes for the hosts", ""},
		{"a.sh", "accelerate launch --num_machines 2 --num_processes 4 a.py\n", "", "Too few"},
		{"a.txt", "machine_rank: 0\nnum_machines: 2\n\nmachine_rank: 0\nnum_machines: 2\n", "warning:  Hosts have one rank", ""},
		{"a.txt", "machine_rank: 0\nnum_machines: 2\n\nmachine_rank: 1\nnum_machines: 2\n", "", "one rank"},
		{"a.sbatch", "#!/bin/bash\n#SBATCH -N 2\nsrun torchrun --nnodes=2 --node_rank=$SLURM_NODEID --master_addr=h a.py\n", "line 3: error:  A rank is the same on all hosts", ""},
		{"a.sbatch", "#!/bin/bash\n#SBATCH -N 2\nL=\"accelerate launch \\\n --machine_rank $SLURM_PROCID\"\nsrun bash -c \"$L\"\n", "line 4: error:  A rank is the same on all hosts", ""},
		{"a.sbatch", "#!/bin/bash\n#SBATCH -N 2\nexport NODE_RANK=$SLURM_NODEID\nsrun python a.py\n", "line 3: error:  A rank is the same on all hosts", ""},
		{"a.sbatch", "#!/bin/bash\n#SBATCH -N 2\nsrun bash -c '\n torchrun --node_rank $SLURM_NODEID a.py'\n", "", "the same on all"},
		{"a.sbatch", "#!/bin/bash\n#SBATCH -N 2\nL=\"accelerate launch --machine_rank \\$SLURM_PROCID\"\nsrun bash -c \"$L\"\n", "", "the same on all"},
		{"a.sbatch", "#!/bin/bash\n#SBATCH -N 2\nsrun torchrun --rdzv_backend c10d --node_rank=$SLURM_NODEID a.py\n", "", "the same on all"},
		{"a.sh", "torchrun --nnodes=2 --node_rank=$SLURM_NODEID --master_addr=h a.py\n", "", "the same on all"},
		{"a.sh", "export GLOO_SOCKET_IFNAME=^lo,docker\ntorchrun --nnodes=2 a.py\n", "error: GLOO_SOCKET_IFNAME Not the name of an interface", ""},
		{"a.sh", "export GLOO_SOCKET_IFNAME=eth0\ntorchrun --nnodes=2 a.py\n", "", "Not the name"},
		{"a.yaml", "kind: Pod\nspec:\n  containers:\n  - name: a\n    volumeMounts:\n  volumes:\n  - hostPath:\n      path: /dev/infiniband\n", "line 8: error:  The container cannot open its RDMA devices", ""},
		{"a.yaml", "kind: Pod\nspec:\n  containers:\n  - name: a\n    securityContext:\n      privileged: true\n    volumeMounts:\n  volumes:\n  - hostPath:\n      path: /dev/infiniband\n", "", "RDMA devices"},
		{"a.yaml", "kind: Pod\nspec:\n  containers:\n  - limits:\n      vpc.amazonaws.com/efa: 8\n    volumeMounts:\n  volumes:\n  - hostPath:\n      path: /dev/infiniband\n", "warning:  All RDMA devices in the container", ""},
		{"a.yaml", "apiVersion: v1\nkind: MPIJob\nspec:\n  limits:\n    nvidia.com/gpu: 1\n", "warning:  The pods have no RDMA device", ""},
		{"a.yaml", "apiVersion: v1\nkind: MPIJob\nspec:\n  limits:\n    nvidia.com/gpu: 1\n    rdma/hca: 1\n", "", "no RDMA device"},
		{"a.yaml", "apiVersion: v1\nkind: Pod\nspec:\n  limits:\n    nvidia.com/gpu: 1\n", "", "no RDMA device"},
		{"a.txt", "slurmd\n* soft memlock unlimited\n", "line 2: warning:  limits.conf is for logins alone", ""},
		{"a.txt", "* soft memlock unlimited\n", "note:  limits.conf is for logins alone", ""},
		{"a.txt", "max locked memory       (kbytes, -l) 64\n", "ulimit shows 64 KiB", ""},
		{"a.txt", "max locked memory       (kbytes, -l) unlimited\n", "", "KiB"},
		{"a.txt", "mpirun -np 2 ./all_reduce_perf\n# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 3.9\n#\n# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 3.9\n", "Each process runs a test of its own", ""},
		{"a.txt", "mpirun -np 2 ./all_reduce_perf\n# Avg bus bandwidth    : 3.9\nAnd with RDMA:\n# Avg bus bandwidth    : 9.9\n", "", "of its own"},
		{"a.txt", "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong\n  8  2  float  sum  -1  3  0.00  0.00  0  3  0.00  0.00  0\n  8  2  float  sum  -1  4  0.00  0.00  0  4  0.00  0.00  0\n  16  4  float  sum  -1  3  0.00  0.00  0  3  0.00  0.00  0\n  16  4  float  sum  -1  4  0.00  0.00  0  4  0.00  0.00  0\n", "line 5: warning:  Each process runs a test of its own", ""},
		{"a.txt", "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong\n  8  2  float  sum  -1  3  0.00  0.00  0  3  0.00  0.00  0\n  8  2  float  sum  -1  4  0.00  0.00  0  4  0.00  0.00  0\n  8  2  float  prod  -1  3  0.00  0.00  0  3  0.00  0.00  0\n", "", "of its own"},
		{"a.txt", "  16  4  float  sum  -1  3  0.00  0.00  0  3  0.00  0.00  0\n# Avg bus bandwidth    : 9\n\n  16  4  float  sum  -1  4  0.00  0.00  0  4  0.00  0.00  0\n# Avg bus bandwidth    : 8\n", "line 4: warning:  Each process runs a test of its own", ""},
		{"a.log", "NET/Socket : Using [0]eth0:10.0.0.1<0> [1]pod-id-link0:169.254.170.23<0>\nsocketPollConnect: connect to 169.254.170.23<4000> returned Connection refused\n", "error:  Local interfaces among NCCL's", ""},
		{"a.log", "NET/Socket : Using [0]eth0:10.0.0.1<0> [1]docker0:172.17.0.1<0>\nsocketPollConnect: connect to 10.0.0.2<4000> returned Connection refused\n", "warning:  Local interfaces among NCCL's", ""},
		{"a.txt", "  local address:  LID 0x0000, QPN 0x000011, PSN 0x017d96, GID fe80::5054:ff:fe6c:16f1\n", "line 1: warning:  Link-local GID", ""},
		{"a.txt", "  local address:  LID 0x0000, QPN 0x000011, PSN 0x017d96, GID fe80::5054:ff:fe6c:16f1\n8192000 bytes in 0.01 seconds = 5000 Mbit/sec\n", "", "Link-local GID"},
		{"a.txt", "  local address:  LID 0x0000, QPN 0x000011, PSN 0x017d96, GID ::ffff:10.0.0.1\n", "", "Link-local GID"},
		{"a.sbatch", "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=8\nsrun torchrun --nproc_per_node=8 --nnodes=2 a.py\n", "line 4: error:  A launcher for each task", ""},
		{"a.sbatch", "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\nsrun torchrun --nproc_per_node=8 --nnodes=2 a.py\n", "", "for each task"},
		{"a.sbatch", "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=8\nsrun --ntasks=2 torchrun --nproc_per_node=8 --nnodes=2 a.py\n", "", "for each task"},
		{"a.sbatch", "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks=4\nsrun torchrun --nproc_per_node=2 --nnodes=2 a.py\n", "line 4: error:  A launcher for each task", ""},
		{"a.sbatch", "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks=2\nsrun torchrun --nproc_per_node=2 --nnodes=2 a.py\n", "", "for each task"},
		{"a.sbatch", "#!/bin/bash\n#SBATCH -N 2\n#SBATCH --ntasks=16\nsrun --container-image=a.sqsh mpirun -np 8 a\nHost key verification failed.\n", "line 4: error:  mpirun within srun", ""},
		{"a.sh", "srun -N 2 --ntasks-per-node=1 mpirun ./all_reduce_perf -g 8\n", "line 1: error:  mpirun within srun", ""},
		{"a.sh", "srun -N 1 -n 1 --container-image=a mpirun -np 8 ./all_reduce_perf -g 1\n", "", "within srun"},
		{"a.sbatch", "#!/bin/bash\n#SBATCH -N 2\n#SBATCH --ntasks=16\nmpirun -np 16 ./all_reduce_perf -g 1\n", "", "within srun"},
		{"a.log", "a:1:2 [0] NCCL INFO Could not get speed from /sys/class/net/virbr0/speed. Defaulting to 10 Gbps.\n", "line 1: warning:  Local interfaces among NCCL's", ""},
		{"a.log", "a:1:2 [0] NCCL INFO Could not get speed from /sys/class/net/eth0/speed. Defaulting to 10 Gbps.\n", "", "Local interfaces"},
		{"a.txt", "docker run -d --gpus all image serve\nRuntimeError: NCCL error: unhandled system error\n", "line 1: warning:  Little shared memory", ""},
		{"a.txt", "docker run -d --gpus all image serve\nRuntimeError: CUDA error: out of memory\n", "", "shared memory"},
		{"a.txt", "docker run --gpus all --shm-size 1g -e NCCL_DEBUG=INFO image\n2024-10-20T03:04:31Z  INFO shard-manager: text_generation_launcher: Waiting for shard to be ready... rank=0\n", "warning:  Shards of TGI wait", ""},
		{"a.txt", "# torchrun --nnodes 1 --nproc_per_node 1 t.py\na:48:48 [0] NCCL INFO Bootstrap : Using lo:127.0.0.1<0>\n", "", "local interface"},
		{"a.txt", "# torchrun --nnodes 1:2 --nproc_per_node 1 t.py\na:48:48 [0] NCCL INFO Bootstrap : Using lo:127.0.0.1<0>\n", "local interface", ""},
		{"a.log", "a:73:73 [0] NCCL INFO Bootstrap : Using eth0:172.17.75.36<0>\n", "", "Docker's own network"},
		{"a.log", "a:73:73 [0] NCCL INFO Bootstrap : Using eth0:172.17.0.3<0>\n", "Docker's own network", ""},
		{"a.sbatch", "#!/bin/bash\n#SBATCH --gres=gpu:a100:2\nsrun torchrun --nproc_per_node=4 a.py\n", "line 3: error:  Fewer GPUs than processes", ""},
		{"a.sbatch", "#!/bin/sh\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=8\nsrun python -u -m parlai.scripts.distributed_train --distributed-world-size 2\n", "line 4: error:  More tasks than ranks", ""}, // facebookresearch/ParlAI/issues/3084
		{"a.sbatch", "#!/bin/sh\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=8\nsrun python -u a.py --distributed-world-size 16\n", "", "More tasks"},
		{"a.sbatch", "#SBATCH --nodes=2\nip=$(srun --nodes=1 -w $h hostname --ip-address)\nsrun torchrun --nnodes 2 --rdzv_endpoint $ip:29500 a.py\n", "line 2: warning:  The address may be a loopback one", ""}, // nebius/nebius-solutions-library/issues/177
		{"a.sbatch", "#SBATCH --nodes=1\nip=$(hostname --ip-address)\ntorchrun a.py\n", "", "loopback"},
		{"a.log", "(Worker pid=1) DEBUG 08-09 20:55:03 [parallel_state.py:1689] Detected 1 nodes in the distributed environment\n" + overLo, "", "Bootstrap over"}, // Project-HAMi/HAMi-core/issues/261
		{"a.log", overLo, "warning:  Bootstrap over a local interface", ""},
		{"a.log", "$ srun -N 2 torchrun --nnodes 2 a.py\n" + overLo, "error:  Bootstrap over a local interface", ""},
		{"a.log", "a:1:1 [0] NCCL INFO NCCL_NCHANNELS_PER_PEER set by environment to 16.\n", "", "Unknown NCCL variable"}, // RCCL's: ray-project/ray/issues/59778
		{"a.log", "$ mpirun -n 4 --allow-run-as-root python run.py\n" + overLo, "", "Bootstrap over"},
		{"a.log", "$ mpirun -n 4 -H a,b python run.py\n" + overLo, "Bootstrap over", ""},
		{"a.log", "(RayWorkerWrapper pid=539) vllm-0:539:539 [6] NCCL INFO NCCL_P2P_LEVEL set by environment to NVL [repeated 15x across cluster]\n", "", "Unknown word"},                                                                                                                                                     // vllm-project/vllm/issues/15769
		{"a.log", "[E ProcessGroupNCCL.cpp:737] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE, Timeout(ms)=1) ran for 1 ms.\n[E ProcessGroupNCCL.cpp:737] [Rank 5] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType=ALLR\n", "", "different collectives"}, // OFA-Sys/OFA/issues/271
		{"a.txt", "# [BUG] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600013 milliseconds before timing out.\nBut I got this.\n", "error:  PyTorch's watchdog stopped the job", ""},                                                // NVIDIA/Megatron-LM/issues/1207
		{"a.log", "(A pid=1) [h][1:7][0][init.cc:1815] NCCL WARN init.cc:1815 -> 5\n(A pid=1) [h][1:7][0][group.cc:585] NCCL WARN group.cc:585 -> 5\n", "error:  NCCL refuses how it is used", "Unknown errors"},                                                                                                              // OpenRLHF/OpenRLHF/issues/795
		{"a.txt", "NNODES=2 NODE_RANK=0 MASTER_ADDR=192.0.2.1 llamafactory-cli train a.yaml\nNNODES=2 NODE_RANK=1 MASTER_ADDR=192.0.2.2 llamafactory-cli train a.yaml\n", "line 2: error:  Hosts meet at different places", ""},                                                                                               // hiyouga/LlamaFactory/issues/7326
		{"a.txt", "NNODES=2 NODE_RANK=0 MASTER_ADDR=192.0.2.1 llamafactory-cli train a.yaml\nNNODES=2 NODE_RANK=1 MASTER_ADDR=192.0.2.1 llamafactory-cli train a.yaml\n", "", "Hosts meet"},
		{"a.txt", "### ncclInternalError: Internal check failed. Proxy Call to rank 0 failed (Connect)\nI see this.\n", "error:  NCCL's proxy thread failed", ""},                   // ray-project/ray/issues/33290
		{"a.txt", "# NCCL error: NCCL version 2.22.3 ncclSystemError: System call failed. Last error:\n```\ntorchrun a.py\n```\n", "NCCL reports a system error", "Unknown errors"}, // huggingface/trl/issues/4737
		{"a.sbatch", "#!/bin/bash\n#SBATCH --gpus-per-node=4\nsrun torchrun --nproc_per_node=4 a.py\n", "", "Fewer GPUs"},
		{"a.log", "$ ib_send_bw -d mlx5_0 --pkey_index=1\na:1:2 [0] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer 10.0.0.2<33397> with error 12, opcode 0, len 0, vendor err 129 (Send)\n", "Set NCCL_IB_PKEY", "On RoCE"},
		{"a.txt", "ray start --address='10.0.0.1:6379' --node-ip-address='10.0.0.2:6379'\n", "line 1: error:  Not an address of a host", ""},
		{"a.txt", "ray start --address='10.0.0.1:6379' --node-ip-address='10.0.0.2'\n", "", "Not an address"},
		{"a.txt", "CA 'mlx5_0'\n\tPort 1:\n\t\tState: Active\n\t\tLink layer: InfiniBand\nCA 'mlx5_1'\n\tPort 1:\n\t\tState: Down\n\t\tLink layer: InfiniBand\n", "note:  A port is down", "nothing"},
		{"a.yaml", "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - resources:\n      limits:\n        rdma/hca: 1\n", "warning:  memlock is limited", ""},
		{"a.yaml", "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - securityContext: {capabilities: {add: [\"IPC_LOCK\"]}}\n    resources:\n      limits:\n        rdma/hca: 1\n", "", "memlock"},
		{"a.log", "a:1:2 [0] misc/cudawrap.cc:34 NCCL WARN Cuda failure 'no CUDA-capable device is detected'\na:1:2 [0] init.cc:270 NCCL WARN Cuda failure 3 'initialization error'\n", "error:  No GPU in this process", "error:  CUDA was used"},
		{"a.log", "[a:1] PMIX ERROR: NOT-FOUND in file client/pmix_client.c at line 564\n*** An error occurred in MPI_Init\n", "error:  PMIx reports an error", "error:  MPI did not start"},
		{"a.sbatch", "#!/bin/bash\n#SBATCH --nodes=2\n# srun later\ntorchrun --nnodes=2 a.py\n", "line 4: error:  Only the first host starts ranks", ""},
		{"a.sbatch", "#!/bin/bash\n#SBATCH --nodes=2\nsrun torchrun --nnodes=2 a.py\n", "", "Only the first"},
		{"a.sbatch", "#!/bin/bash\n#SBATCH --nodes=1\ntorchrun --nproc_per_node=2 a.py\n", "", "Only the first"},
		{"a.log", "$ lsmod\nnvidia_peermem         16384  0\na:1:2 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n", "nvidia_peermem is loaded (line 2)", ""},
		{"a.log", "a:1:2 [0] NCCL INFO Bootstrap : Using lo:127.0.0.1<0>\na:1:2 [0] NCCL INFO NET/OFI Selected Provider is tcp (found 1 nics)\na:1:2 [0] f:1 NCCL WARN NET/OFI Disabling shared memory failed: Protocol not available\n", "line 3: error:  AWS's plugin reports an error", "error:  Bootstrap"},
		{"a.sh", "export CUDA_VISIBLE_DEVICES=0,1\ntorchrun --nproc_per_node=4 a.py\n", "CUDA_VISIBLE_DEVICES in line 1 gives them 2 GPUs", ""},
		{"a.sh", "CUDA_VISIBLE_DEVICES=0,1 ./b\ntorchrun --nproc_per_node=4 a.py\n", "", "Fewer GPUs"},
		{"a.sbatch", "#!/bin/bash\n#SBATCH --gres=gpu:2\n#SBATCH --ntasks-per-node=2\napptainer exec --nv a.sif python a.py\n", "line 4: warning:  One process instead of the tasks", ""}, // Lightning-AI/pytorch-lightning#19883
		{"a.sbatch", "#!/bin/bash\n#SBATCH --gres=gpu:2\n#SBATCH --ntasks-per-node=2\nsrun python a.py\n", "", "One process"},
		{"a.sbatch", "#!/bin/bash\n#SBATCH --gres=gpu:2\n#SBATCH --ntasks=2\ntorchrun --nproc_per_node=2 a.py\n", "", "One process"},
		{"a.sbatch", "#!/bin/bash\n#SBATCH --gres=gpu:1\n#SBATCH --ntasks=8\npython a.py\n", "", "One process"},
		{"a.sbatch", "#!/bin/bash\n#SBATCH --nodes=2\ntime torchrun --nnodes=2 a.py\n", "line 3: error:  Only the first host starts ranks", ""},
		{"a.sbatch", "#!/bin/bash\n#SBATCH --nodes=2\nip=$(srun --nodes=1 --ntasks=1 -w \"$head\" hostname --ip-address)\ntorchrun --nproc_per_node 8 --rdzv_endpoint $ip:29500 a.py\n", "line 4: error:  Only the first host starts ranks", ""},
		{"a.sbatch", "#!/bin/bash\n#SBATCH --nodes=2\nip=$(srun -w \"$head\" hostname)\nsrun torchrun --nproc_per_node 8 --rdzv_endpoint $ip:29500 a.py\n", "", "Only the first host"},
		{"a.sbatch", "#SBATCH --nodes=2\nsrun python -m torch.distributed.launch --nnodes=2 --node_rank=0 a.py\nsrun python -m torch.distributed.launch --nnodes=2 --node_rank=1 a.py\n", "line 2: warning:  srun after srun", ""},
		{"a.sbatch", "#SBATCH --nodes=2\nsrun python -m torch.distributed.launch --nnodes=2 --node_rank=0 a.py &\nsrun python -m torch.distributed.launch --nnodes=2 --node_rank=1 a.py &\n", "", "srun after srun"},
		{"a.log", "[E socket.cpp:922] [c10d] The client socket has timed out after 1800s while trying to connect to (172.17.0.2, 44737).\n", "an address of Docker's default network", ""},
		{"a.log", "[E socket.cpp:922] [c10d] The client socket has timed out after 1800s while trying to connect to (10.0.0.2, 44737).\n", "", "Docker"},
		{"a.sh", "PORT=90000 ./tools/dist_test.sh a.py 3\nexport NCCL_DEBUG=INFO\n", "Not a TCP port", ""},
		{"a.log", strings.NewReplacer("%r", "1", "%s", "2").Replace(watchdogLine) + strings.NewReplacer("%r", "2", "%s", "2").Replace(watchdogLine), "Rank 0 is not among them", ""},
		{"a.log", strings.NewReplacer("%r", "0", "%s", "2").Replace(watchdogLine) + strings.NewReplacer("%r", "2", "%s", "2").Replace(watchdogLine), "", "Rank 0 is not"},
		{"a.log", strings.NewReplacer("%r", "1", "SeqNum=%s, ", "").Replace(watchdogLine), "Rank 1 waited in ALLREDUCE: another", ""},
		{"a.log", realPath + "a:1:3 [0] NCCL INFO misc/group.cc:69 -> 2 [Async thread]\n", "line 1: error:  A device of the topology is not in /sys", ""},
		{"a.log", realPath, "line 1: warning:  A device of the topology is not in /sys", ""},
		{"a.log", realPath + noMemory + "a:1:3 [0] NCCL INFO group.cc:69 -> 2 [Async thread]\n", "line 1: warning:  A device of the topology is not in /sys", ""},
		{"a.log", direct + complete, "line 1: note:  Direct access between GPUs is not shown to work", ""},
		{"a.log", direct + complete + "a:1:3 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1000 - Destroy COMPLETE\n", "", "Direct access"},
		{"a.log", direct + complete + closedByPeer, "", "Direct access"},
		{"a.log", "a:1:3 [0] NCCL INFO Using network Socket\n" + complete, "", "Silent fallback"}, // all ranks of one host
		{"a.log", "a:1:3 [0] NCCL INFO Using network Socket\na:1:3 [0] NCCL INFO Channel 00 : 0[1000] -> 1[1000] [send] via NET/Socket/0\n" + complete, "warning:  Silent fallback", ""},
		{"a.sh", "srun --export=NCCL_DEBUG=INFO ./a\n", "warning:  The tasks get these variables alone", ""},
		{"a.sh", "srun --export=ALL,NCCL_DEBUG=INFO ./a\n", "", "variables alone"},
		{"a.sh", "export NCCL_IB_HCA==mlx_5_0\n", "Not a name that the driver gives", ""},
		{"a.sh", "export NCCL_IB_HCA=mlx5\n", "", "Not a name"},
	} {
		got := asText(Explain(c.name, c.text, nil, fabric.Invocation{}))
		if !strings.Contains(got, c.says) || c.notSays != "" && strings.Contains(got, c.notSays) {
			t.Errorf("%s: want %q and not %q:\n%s", c.text, c.says, c.notSays, got)
		}
	}
}

// TestProgramsAreNotLogs: what a program's text or a detailed log names is not what happened.
func TestProgramsAreNotLogs(t *testing.T) {
	for _, c := range []struct{ name, text, says, notSays string }{
		{"a.py", "import pynvml\ntry:\n    pynvml.nvmlInit()\nexcept Exception:\n    pass\nos.environ[\"NCCL_DEBUG\"] = \"INFO\"\n", "", "error:"},
		{"a.txt", "pynvml.nvmlInit()\nexport NCCL_DEBUG=WARN\n", "", "NVML"},
		{"a.txt", "nvmlInit() failed: Driver Not Loaded\nexport NCCL_DEBUG=WARN\n", "driver is not loaded", ""},
		{"a.py", "def sigkill_handler(signum, frame):\n    sys.exit(1)\ndist.init_process_group('nccl')\n", "", "A rank ended"},
		{"a.py", "ERRORS = [\n    \"CUDA error: uncorrectable ECC error encountered\",\n    \"Address already in use\",\n]\ndist.init_process_group('nccl')\n", "", "error:"},
		{"a.py", "# host:1:2 [0] misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to 192.0.2.1<1> failed : Software caused connection abort\n", "error:", ""},
		{"a.log", "0: [1.5] [gpu1:5:0] mm_posix.c:353  UCX  DEBUG mm failed to allocate 1065072 bytes with hugetlb Invalid argument\n0: [1.6] [gpu1:5:0] cuda_ipc_md.c:62  UCX  ERROR cuCtxGetDevice(&cu_device) is failed. ret:invalid device context\n", "UCX cannot share GPU memory", "another process's memory"},
		{"a.log", "libfabric:85:1747438790::core:core:fi_getinfo_():1392<debug> fi_getinfo: failed: No data available\nlibfabric:85:1747438790::efa:mr:efa_mr_reg():1<warn> Unable to register MR: Cannot allocate memory\n", "", "No data"},
		{"a.sh", "NNODES=${NNODES:-16}\nMASTER_ADDR=${MASTER_ADDR:-localhost}\ntorchrun --nnodes=$NNODES --master_addr=$MASTER_ADDR a.py\n", "line 2: warning:  Ranks meet at localhost", "error:"}, // verl-project/verl, examples/sft
		{"a.py", "\"\"\"\ntorchrun --nnodes 4 --master_addr h --node_rank ${RANK} a.py\n\"\"\"\nif \"WORLD_SIZE\" not in os.environ:\n    os.environ[\"RANK\"] = \"0\"\n    os.environ[\"MASTER_ADDR\"] = \"localhost\"\n", "", "localhost"},
		{"a.sbatch", "#!/bin/bash\n#SBATCH --nodes=2\nexport NCCL_DEBUG=INFO\nmpirun -N 1 hostname\nsrun --mpi=pmix ./all_reduce_perf\n", "", "Not set on the other hosts"},
		{"a.sbatch", "#!/bin/bash\n#SBATCH --nodes=16\n#SBATCH --ntasks-per-node=8\nsrun \"${ARGS[@]}\" --mpi=pmix $TEST -b 8 -n 100\n", "", "Fewer tasks"},
		{"a.sbatch", "#!/bin/bash\n#SBATCH --nodes=9\n#SBATCH --ntasks-per-node=1\nsrun --nodes=8 --ntasks=8 a &\nsrun --nodes=1 --ntasks=1 b &\n", "", "Fewer tasks"},
		{"a.sbatch", "#!/bin/bash\n#SBATCH --nodes=9\n#SBATCH --ntasks-per-node=2\nsrun --ntasks=9 a\n", "Fewer tasks", ""},
		{"Dockerfile", "FROM x\nENV NCCL_DEBUG=INFO\nRUN cd build \\ \n    && cmake \\\n    -DA=1\n", "", "ends too early"},
		{"a.sh", "export NCCL_DEBUG=INFO\ntorchrun --nnodes=1 \\ \n    a.py\n", "ends too early", ""},
		{"a.yaml", "env_vars:\n  NCCL_IB_TIMEOUT: null\n  NCCL_DEBUG: null\n  NCCL_PROTO: ~\n", "", "error:"},
		{"a.yaml", "env_vars:\n  NCCL_IB_TIMEOUT: nul\n", "error:", ""},
		{"a.sh", "sbatch --nodes 16 --wrap=\"srun --auto-resume=1 bash a.sh\"\n", "", "blank is missing"},
		{"a.sh", "export FI_PROVIDER=efa\nexport NCCL_SOCKET_IFNAME==eth0\n", "", "No list of devices"},
		{"a.md", "Smaller GPUs might result in **CUDA out of memory errors** for the examples.\n\n```\nexport NCCL_DEBUG=INFO\n```\n", "", "GPU memory"},
		{"a.log", "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2021-05-23T08:46:02 ***\n", "error:  The job was cancelled", ""},
		{"a.log", "P2P=Enabled Latency (P2P Writes) Matrix (us)\n   GPU     0      1\n     0   1.23 49203.45\n     1 49204.03   1.25\n\n   CPU     0      1\n     0   3.71   9.03\n", "line 3: error:  Direct access between GPUs does not work", ""}, // NVIDIA/nccl/issues/257
		{"a.log", "P2P=Enabled Latency (P2P Writes) Matrix (us)\n   GPU     0      1\n     0   1.23  18.04\n     1  18.86   1.25\n", "", "does not work"},
		{"a.txt", "\tGPU0\tGPU1\tGPU2\tCPU Affinity\nGPU0\t X \tSYS\tSYS\t0-15\nGPU1\tSYS\t X \tNODE\t16-31\nGPU2\tSYS\tNODE\t X \t16-31\n", "note:  GPUs of different processors", ""},
		{"a.txt", "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV4\t0-15\nGPU1\tNV4\t X \t16-31\n", "", "different processors"},
		{"a.log", "[W socket.cpp:601] [c10d] The client socket has failed to connect to [h]:22456 (errno: 22 - Invalid argument).\n", "warning:  c10d cannot connect to one of the addresses", "error:"},                                                                                         // NVIDIA-NeMo/Speech/issues/7351
		{"a.py", "def setup(rank, world_size):\n    os.environ['MASTER_PORT'] = find_free_port()\n    dist.init_process_group('gloo', rank=rank, world_size=world_size)\n\ndef main():\n    mp.spawn(setup, args=(4,), nprocs=4)\n", "line 2: error:  Each process takes a port of its own", ""}, // pytorch/pytorch/issues/53395
		{"a.py", "def setup(rank, world_size, port):\n    os.environ['MASTER_PORT'] = port\n    dist.init_process_group('gloo', rank=rank, world_size=world_size)\n\ndef main():\n    port = find_free_port()\n    mp.spawn(setup, args=(4, port), nprocs=4)\n", "", "a port of its own"},
		{"a.py", "def run(rank, world_size):\n    dist.init_process_group('gloo', rank=rank, world_size=world_size)\nmp.spawn(run, args=(world_size,))\n", "line 3: warning:  Only one process is started", ""}, // helboukkouri/character-bert-pretraining/issues/4
		{"a.py", "def run(rank, world_size):\n    dist.init_process_group('gloo', rank=rank, world_size=world_size)\nmp.spawn(run, (world_size,), world_size)\n", "", "Only one process"},
		{"a.py", "def run(rank, world_size):\n    dist.init_process_group('gloo', rank=rank, world_size=world_size)\nmp.spawn(\n    run,\n    args=(world_size,),\n    nprocs=world_size)\n", "", "Only one process"},
		{"a.txt", "The program hangs:\n\n    python imagenet.py --world-size=2 --dist-url=file:///a \\\n    --rank=0 x\n", "line 4: warning:  Only one rank is started", ""}, // pytorch/pytorch/issues/8091
		{"a.txt", "The program hangs:\n\n    python imagenet.py --world-size 2 --rank 0 x\n    python imagenet.py --world-size 2 --rank 1 x\n", "", "Only one rank"},
		{"a.log", "a:1:1 [0] NCCL INFO NET/IB: [2] mlx5_2:uverbs2:1/RoCE provider=Mlx5 speed=400000 context=0x5563d0080110 pciPath=/sys/devices/pci0000:37 ar=0\n", "", "does not choose a GID"},
		{"a.txt", "sglang hangs on two node H20 over RoCE. There were no problems using Socket Mode for NCCL.\n", "warning:  RDMA does not work", "NCCL_P2P_DISABLE"}, // sgl-project/sglang/issues/3603
		{"a.txt", "sglang hangs on two node H20. NCCL has no problems using socket mode.\n", "several hosts", "RDMA does not work"},
		{"a.log", "a:1:2 [0] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so), using internal implementation\na:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE ; OOB eth1:192.0.2.1<0>\n", "NCCL before 2.21 uses GID index 0", ""}, // huggingface/accelerate/issues/412
		{"a.log", "a:1:2 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so.\na:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth1:192.0.2.1<0>\n", "", "uses GID index 0"},
		{"Dockerfile", "FROM x\nENV NCCL_SOCKET_IFNAME=eth0\n", "line 2: warning: NCCL_SOCKET_IFNAME Same value for all hosts", ""}, // aws/deep-learning-containers/pull/6469
		{"Dockerfile", "FROM x\nENV NCCL_SOCKET_IFNAME=^docker0,lo\n", "", "Same value"},
		{"a.txt", "Launch a 2 node job: `python -m torch.distributed.run --rdzv_backend c10d --rdzv_endpoint \"$H\" --nnodes 2 echo hello`\nrendezvous times out since the rank 0 host doesn't realize it's the master\n", "line 2: warning:  The rendezvous failed", ""}, // pytorch/elastic/issues/165
		{"a.txt", "Is there any way to use NCCL + RDMA on interfaces that aren't assigned IP addresses?\n", "warning:  NIC without an address", ""},                                                                                                                       // NVIDIA/nccl/issues/1796
		{"a.txt", "NCCL finds no IP address of the interface eth0.\n", "", "NIC without an address"},
		{"a.txt", "The default options of docker do not expose `/dev/infiniband` to the run.\nexport NCCL_DEBUG=INFO\n", "warning:  Container without RDMA devices", ""}, // ROCm/MAD/pull/228
		{"a.txt", "With sockets a container does not need /dev/infiniband.\nexport NCCL_DEBUG=INFO\n", "", "Container without RDMA devices"},
		{"a.txt", "Cannot use RDMA, and Pods on different nodes have the same IP for `net1`\n", "warning:  Pods with one address", ""}, // k8snetworkplumbingwg/sriov-network-device-plugin/issues/338
		{"a.txt", "RDMA is fine. The pods on both nodes do not have the same IP.\n", "", "Pods with one address"},
		{"a.txt", "rdmaSharedDevicePlugin:\n  resources:\n    - name: rdma_shared_device_a\n      ifNames: [ibs1]\nIn the pod I can still see all 4 IB network cards.\n", "warning:  RDMA devices are not isolated", ""}, // Mellanox/network-operator/issues/738
		{"a.txt", "The step gets a world size larger than the live process count, so `init_process_group` waits for ranks that never exist.\n", "warning:  More ranks are expected than start", ""},                      // Benzoin96485/Enerzyme/pull/107
		{"a.txt", "8 RoCE NICs per node. Can I put all 16 NICs into a single VLAN and a single IP subnet? Any issues for NCCL?\n", "warning:  Two NICs in one subnet", ""},                                               // NVIDIA/nccl/issues/2158
		{"a.txt", "NCCL over RoCE is fine; both nodes are in the same subnet.\n", "", "one subnet"},
		{"a.txt", "The GPUs fail after hours. A `xid 149` error was found in the log.\n", "error:  NVLink reports errors", ""}, // NVIDIA/open-gpu-kernel-modules/issues/1150
		{"a.txt", "The GPUs fail after hours. There is no Xid 149 in dmesg.\nexport NCCL_DEBUG=INFO\n", "", "NVLink"},
		{"a.log", "Exception ignored in: <function C.__del__ at 0x7f>\nTraceback (most recent call last):\n  File \"a.py\", line 264, in __del__\n    f(self.comm)\nAttributeError: 'C' object has no attribute 'comm'\nTraceback (most recent call last):\n  File \"a.py\", line 250, in __init__\n    assert result == 0\nAssertionError\n", "", "AttributeError"}, // vllm-project/vllm/issues/4114
		{"a.txt", "a:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:192.0.2.1<0>\nMy 2 servers were misconfigured with different MTU. After correct this, it works.\n", "line 2: warning:  MTUs differ", ""},                                                                                                                                       // NVIDIA/nccl/issues/1524
		{"a.txt", "NCCL over RoCE. Is the MTU different on your hosts?\n", "", "MTUs differ"},
		{"a.txt", "timeout exceeded in mpi-small-tests over RoCE.\nPFC was not configured properly.\n", "warning:  RoCE without flow control", ""},                                                                                             // openucx/ucx/issues/2934
		{"a.sbatch", "#!/bin/bash\n#SBATCH --nodes=2\nsrun torchrun --nproc_per_node 4 --rdzv_id $RANDOM --rdzv_backend c10d --rdzv_endpoint $h:29500 ./finetuning.py --enable_fsdp\n", "line 3: error:  Each host runs a job of its own", ""}, // meta-llama/llama-cookbook/issues/491
		{"a.sbatch", "#!/bin/bash\n#SBATCH --nodes=2\nsrun torchrun --nnodes 2 --nproc_per_node 4 --rdzv_id 1 --rdzv_backend c10d --rdzv_endpoint $h:29500 ./finetuning.py\n", "", "job of its own"},
		{"a.sbatch", "#!/bin/bash\n#SBATCH --nodes=2\nsrun torchrun $ARGS ./finetuning.py\n", "", "job of its own"},
		{"a.sbatch", "#!/bin/bash\n#SBATCH --nodes=1\nsrun torchrun --nproc_per_node 4 ./finetuning.py\n", "", "job of its own"},
		{"a.txt", "node1.sh\nexport NNODES=2\nexport NODE_RANK=0\nswift rlhf\n\nnode2.sh\nexport NNODES=2\nexport NODE_RANK=0\nswift rlhf\n", "line 8: warning:  Hosts have one rank", ""},
		{"a.txt", "node1.sh\nexport NNODES=2\nexport NODE_RANK=0\nswift rlhf\n\nnode2.sh\nexport NNODES=2\nexport NODE_RANK=1\nswift rlhf\n", "", "Hosts have one rank"},
		{"a.log", "NCCL version 2.18.5+cuda12.0\na:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_4:1/RoCE [RO]; OOB eth0:192.0.2.1<0>\na:1:3 [0] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer 192.0.2.3<41602> with error 4, opcode 0, len 0, vendor err 81 (Send) localGid ::ffff:198.51.100.1 remoteGid ::ffff:198.51.100.3\n", "Memory protection error", "does not choose a GID"}, // NVIDIA/nccl/issues/1052
		{"a.py", "# causing \"NCCL WARN Deregister: Could not find handle\" and a crash.\ndist.init_process_group('gloo')\n", "", "Wrong use"},
		{"a.txt", "#SBATCH --gres=gpu:4\n#SBATCH --ntasks-per-node=4\nsrun python train.py\n\ntrainer = pl.Trainer(gpus=4, num_nodes=2)\n", "line 5: error:  The program expects more hosts", ""}, // Lightning-AI/pytorch-lightning/issues/10098
		{"a.txt", "#SBATCH -N 2\n#SBATCH --gres=gpu:4\n#SBATCH --ntasks-per-node=4\nsrun python train.py\n\ntrainer = pl.Trainer(gpus=4, num_nodes=2)\n", "", "more hosts"},
		{"a.log", "a:1:2 [0] transport/p2p.cc:237 NCCL WARN failed to open CUDA IPC handle : 101 invalid device ordinal\n", "A rank does not see its peer's GPU", "No GPU in this process"},                                // NVIDIA/nccl/issues/360
		{"a.txt", "Performance degrades drastically between two docker in one host.\nc1:1:2 [0] NCCL INFO Channel 00 : 3[b3000] -> 4[b4000] [receive] via NET/Socket/0\n", "line 1: warning:  Containers of one host", ""}, // NVIDIA/nccl-tests/issues/93
		{"a.txt", "Two docker containers on two hosts.\nc1:1:2 [0] NCCL INFO Channel 00 : 3[b3000] -> 4[b4000] [receive] via NET/Socket/0\n", "", "Containers of one host"},
		{"a.log", "fi_info -p efa lists 16 devices\nNET/IB: ibp198s0f0:1 async fatal event on QP: local access violation work queue error\n", "error:  NCCL uses RDMA devices beside EFA", ""},
		{"a.sh", "GLOO_SOCKET_IFNAME=eth0 vllm serve /m\n\nthe error is：\n(W pid=1, ip=192.0.2.8) [rank8]:[E ProcessGroupGloo.cpp:144] Gloo connectFullMesh failed with [a/pair.cc:144] no error\n", "line 4: error:  Gloo cannot connect", ""},                                                        // vllm-project/vllm/issues/7074
		{"a.txt", "when set GID Index to 1 to run all_reduce_perf\nNCCL WARN Call to ibv_modify_qp failed with error Connection timed out\n\tGID[  1]:\t\tfe80::ac0:ebff:feda:1cfb, RoCE v2\n\tGID[  3]:\t\t::ffff:192.0.2.6, RoCE v2\n", "error: NCCL_IB_GID_INDEX Link-local GID", ""},               // NVIDIA/nccl/issues/769
		{"a.txt", "NCCL hangs with 2.23.4.\nDEV\tPORT\tINDEX\tGID\tIPv4\tVER\tDEV\nmlx5_0\t1\t6\t0000:0000:0000:0000:0000:ffff:0a9c:8184\t10.156.129.132\tv1\tnet1\nmlx5_0\t1\t7\t0000:0000:0000:0000:0000:ffff:0a9c:8184\t10.156.129.132\tv2\tnet1\n", "warning:  Sparse GID table", "The job hangs"}, // NVIDIA/nccl/issues/1538
		{"a.txt", "9[1a000] -> 2[6b000] [send] via NET/IB/0/GDRDMA\n9[1a000] -> 2[6b000] [receive] via NET/IB/1\n", "line 2: note:  GPUDirect RDMA on some channels alone", ""},                                                                                                                        // NVIDIA/nccl/issues/897
		{"a.txt", "9[1a000] -> 2[6b000] [send] via NET/IB/0/GDRDMA\n9[1a000] -> 2[6b000] [receive] via NET/IB/1/GDRDMA\n", "", "some channels"},
		{"a.log", "a:1:1 [0] NCCL INFO NET/Socket : Using [0]eno1:192.0.2.8<0> [1]veth1f05ad1:fe80::902b:2dff:fede:5cb5%veth1f05ad1<0>\nb:1:1 [0] NCCL INFO Using network Socket\nncclSystemError: System call (socket, malloc, munmap, etc) failed.\n", "line 1: error:  Local interfaces among NCCL's", "NCCL reports a system error"}, // Lightning-AI/pytorch-lightning/issues/12257
		{"a.log", "a:1:1 [0] NCCL INFO NET/Socket : Using [0]eno1:192.0.2.8<0> [1]veth1f05ad1:fe80::902b:2dff:fede:5cb5%veth1f05ad1<0>\nncclSystemError: System call (socket, malloc, munmap, etc) failed.\n", "error:  NCCL reports a system error", "error:  Local"},
		{"a.txt", "I run in two docker container.\nNCCL error in: /p/ProcessGroupNCCL.cpp:272, unhandled system error\n", "Run containers on several hosts with --network=host", ""}, // pytorch/pytorch/issues/23363
		{"a.txt", "NCCL error in: /p/ProcessGroupNCCL.cpp:272, unhandled system error\n", "", "Run containers on several hosts"},
		{"a.log", "I set NCCL_P2P_DISABLE=1, and this solved it.\n[E ProcessGroupNCCL.cpp:475] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLGATHER, NumelIn=1, NumelOut=3, Timeout(ms)=1800000) ran for 1800005 milliseconds before timing out.\n", "Direct access between GPUs does not work", "is not the cure"}, // RLHFlow/Online-RLHF/issues/22
		{"a.txt", "UCX_NET_DEVICES=all\nERROR failed to create backend UCX: NIXL_ERR_BACKEND\n", "Line 1 gives UCX all devices of the host", ""},                                                                                                                                                                                                          // ai-dynamo/dynamo/pull/10852
		{"a.txt", "UCX_NET_DEVICES=mlx5_0:1\nERROR failed to create backend UCX: NIXL_ERR_BACKEND\n", "NIXL's backend failed", "all devices of the host"},
		{"a.log", "nodes eventually run out of /dev/shm space\nRuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)\n", "Line 1 says that /dev/shm is too small or full", ""}, // llm-d/llm-d/issues/352
		{"a.log", "shm 32G 1M 32G 1% /dev/shm\nRuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)\n", "NCCL reports a system error", "says that /dev/shm"},
		{"a.log", "Failed to get the system config from raylet because it is dead. Status: RpcError: failed to connect to all addresses\n", "error:  A host of Ray ended", "MASTER_ADDR"},                        // gpustack/gpustack/issues/2024
		{"a.txt", "training fails because of an nccl 600 seconds timeout when loading the checkpoint\n", "The line names a checkpoint", ""},                                                                      // facebookresearch/fairseq2/issues/1485
		{"a.log", "(head, rank=0, pid=5) n0:1:2 [2] NCCL INFO NET/Socket : Using [0]eth0:192.0.2.5<0> [1]enP7906s1:fe80::20d:3aff:fef9:4aef%enP7906s1<0>\n", "warning:  Link-local interfaces among NCCL's", ""}, // skypilot-org/skypilot/issues/4448
		{"a.log", "n0:1:2 [2] NCCL INFO NET/Socket : Using [0]eth0:192.0.2.5<0> [1]enP7906s1:fe80::20d:3aff:fef9:4aef%enP7906s1<0>\n", "", "Link-local interfaces"},
		{"a.txt", "the VF's NODE GUID is `0000:0000:0000:0000`\nCouldn't allocate MR\n", "error:  Device without a GUID", "memlock"},                                                                                                             // k8snetworkplumbingwg/sriov-network-device-plugin/issues/590
		{"a.log", "a:1:2 [0] NCCL INFO NET/Plugin: Plugin load returned 2 : libhwloc.so.15: cannot open shared object file: No such file or directory : when loading libnccl-net-ofi.so\n", "warning:  The network plugin cannot be loaded", ""}, // PrimeIntellect-ai/prime-rl/pull/3452
		{"a.log", "a:1:2 [0] NCCL INFO NET/Plugin: Plugin load returned 2 : libnccl-net.so: cannot open shared object file: No such file or directory : when loading libnccl-net.so\n", "", "cannot be loaded"},
		{"a.log", "EFA is installed in /opt/amazon\na:1:2 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.\na:1:2 [0] NCCL INFO NET/IB : No device found.\na:1:2 [0] NCCL INFO Using network Socket\n", "warning:  The network plugin is not found", "No RDMA device"},                                                                                                                                                                              // NVIDIA-NeMo/RL/issues/1973
		{"a.sh", "#!/bin/bash\n#SBATCH --nodes=2\nread -ra ADDR <<<\"$ip\"\nsrun python -m torch.distributed.launch --nnodes 2 --node_rank \"$SLURM_PROCID\" --master_addr h a.py\n", "error:  A rank is the same on all hosts", ""},                                                                                                                                                                                                                                                        // pytorch/pytorch/issues/25767
		{"a.sh", "mpirun -np 2 -H a,b -x NCCL_IB_HCA=mlx5_1:1,^mlx5_0 ./all_reduce_perf\n", "Write \"=mlx5_1:1\".", ""},                                                                                                                                                                                                                                                                                                                                                                     // NVIDIA/nccl-tests/issues/62
		{"a.log", "w-0:27:27 [0] misc/ibvwrap.cu:63 NCCL WARN Failed to open libibverbs.so[.1]\nw-0:27:27 [0] NCCL INFO rank 0 nranks 2\nw-0:31:31 [1] NCCL INFO rank 1 nranks 2\nw-0:31:31 [1] NCCL INFO comm 0x1 rank 1 nranks 2 cudaDev 1 nvmlDev 1 - Init COMPLETE\nw-0:27:27 [0] NCCL INFO comm 0x2 rank 0 nranks 2 cudaDev 0 nvmlDev 0 - Init COMPLETE\n", "note:  NCCL warns of libibverbs", "No RDMA device"},                                                                       // bytedance/byteps/issues/61
		{"a.log", "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2615, unhandled system error\nLast error:\n[Service thread] Error encountered progressing operation=Connect, res=3, closing connection\n", "could not set up a connection", ""},                                                                                                                                                                                                                  // verl-project/verl/issues/108
		{"a.md", "```python\njax.distributed.initialize(coordinator_address=\"h:1\", num_processes=2, process_id=0)\njax.pmap(f)(xs)\n```\n```python\njax.distributed.initialize(coordinator_address=\"h:1\", num_processes=2, process_id=1)\n```\nrendezvous.cc:38] This thread has been waiting for `initialize clique` for 10 seconds and may be stuck. Expected 8 threads to join the rendezvous, but not all of them arrived on time.\n", "Of 2 programs in the text, 1 computes", ""}, // jax-ml/jax/issues/22740
		{"a.md", "```python\njax.distributed.initialize(coordinator_address=\"h:1\", num_processes=2, process_id=0)\njax.pmap(f)(xs)\n```\n```python\njax.distributed.initialize(coordinator_address=\"h:1\", num_processes=2, process_id=1)\njax.pmap(f)(xs)\n```\nrendezvous.cc:38] This thread has been waiting for `initialize clique` for 10 seconds and may be stuck. Expected 8 threads to join the rendezvous, but not all of them arrived on time.\n", "Devices wait for each other", "programs in the text"},
		{"a.yaml", "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: a\n    resources:\n      limits:\n        rdma/rdma_shared_device_a: 1\n", "warning:  The RDMA NIC's interface stays outside of the pod", ""}, // Mellanox/k8s-rdma-shared-dev-plugin/issues/108
		{"a.yaml", "apiVersion: v1\nkind: Pod\nmetadata:\n  annotations:\n    k8s.v1.cni.cncf.io/networks: net1\nspec:\n  containers:\n  - name: a\n    resources:\n      limits:\n        rdma/rdma_shared_device_a: 1\n", "", "stays outside"},
		{"a.log", "UCX  ERROR received event RDMA_CM_EVENT_ROUTE_ERROR. status = -110. Peer: fe80::1:50765.\n", "a subnet manager runs", ""},                                                                                                                                                                                                 // openucx/ucx/pull/4057
		{"a.log", "[h:1:0:1] ib_mlx5_log.c:143  Transport retry count exceeded on mlx5_0:1/RoCE (synd 0x15 vend 0x81 hw_synd 0/0)\n[h:1:0:1] ib_mlx5_log.c:143  DCI QP 0x1510 wqe[0]: SEND s-e [rqpn 0x1 rmac 0c:42:a1:7d:df:c8 sgix 0 dgid fe80::e42:a1ff:fe7d:dfc8 tc 0] [inl len 18]\n", "error:  Link-local GIDs between the hosts", ""}, // openucx/ucx/issues/6000
		{"a.txt", "RuntimeError: Runtime error: unhandled system error\n        ncclGroupEnd() at ResourceManagerCore\n\nthe container was created by \"docker run --gpus=all --rm -it -v $(pwd):/h nvcr.io/nvidia/merlin/merlin-training:21.12\"\n", "neither --shm-size nor --ipc=host", ""},                                               // NVIDIA-Merlin/HugeCTR/issues/287
		{"a.sbatch", "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --ntasks-per-node=8\n#SBATCH --gpus-per-task=1\nsrun python a.py\n", "note:  Each task sees one GPU", ""},                                                                                                                                                                      // NVIDIA/pyxis/issues/111
		{"a.sbatch", "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --ntasks-per-node=8\n#SBATCH --gpus-per-task=1\n#SBATCH --gpu-bind=none\nsrun python a.py\n", "", "Each task sees one GPU"},
		{"a.txt", "export OMPI_MCA_pml=ucx\nexport UCX_TLS=self,sm,tcp\n\n[h:10793] PML ucx cannot be selected\n", "UCX_TLS = self,sm,tcp has none of them", ""}, // openucx/ucx/issues/8952
		{"a.txt", "export UCX_TLS=rc,sm\n\n[h:10793] PML ucx cannot be selected\n", "opal_common_ucx_tls", "has none of them"},
		{"a.md", "RDMA fails when two peers have different active MTUs, for example 4096 and 1024.\n", "warning:  MTUs differ", ""},                                                                           // kvcache-ai/Mooncake/issues/3868
		{"a.txt", "ncclInternalError: Internal check failed.\nLast error:\nProxy Call to rank 0 failed (Connect)\n\nBoth run in Docker containers on cloud VMs.\n", "error:  NCCL's proxy thread failed", ""}, // ray-project/ray/issues/40758
		{"a.txt", "I have to add `DEFAULT_NCCL_SOCKET_IFNAME = \"en,eth,bond\"`\n", "note:  Ray Train chooses the interfaces", ""},                                                                            // ray-project/ray/issues/30333
		{"a.sh", "NCCL_DEBUG=TRACE torchrun --nnodes 2 --nproc-per-node=2 --rdzv_backend=c10d --rdzv_endpoint=$MASTER_ADDR test_vllm.py\n", "note:  The command of one host", ""},                             // vllm-project/vllm/issues/11560
		{"a.sh", "for h in a b; do ssh $h torchrun --nnodes 2 --nproc-per-node=2 --rdzv_backend=c10d --rdzv_endpoint=a:29500 a.py & done\n", "", "The command of one host"},
		{"a.txt", "I tried NCCL_TOPO_DUMP_FILE= /root/system.xml , the test runs\n", "error:  Space around =", ""},                                                                                                                                                      // NVIDIA/nccl/issues/1102
		{"a.txt", "docker run -it --ipc=host --ulimit memlock=-1 ulimit stack 67108864 img\n", "error:  An option without its dashes", ""},                                                                                                                              // NVIDIA/TensorRT-LLM/issues/408
		{"a.txt", "RuntimeError: NCCL Error 2: unhandled system error\nc:1:2 [0] NCCL INFO comm 0x1 rank 0 nranks 1 cudaDev 0 - Init START\nc:1:2 [0] NCCL INFO NCCL_TOPO_FILE set by environment to /opt/microsoft/ncv4/topo.xml\n", "Try without NCCL_TOPO_FILE", ""}, // NVIDIA/nccl/issues/1101
		{"a.txt", "On 2 nodes I see some issues related to ProcessGroupGloo.\n", "warning:  Gloo between hosts", ""},                                                                                                                                                    // sgl-project/sglang/issues/836
		{"a.py", "import torch.distributed as dist\ndist.init_process_group(backend='nccl', init_method=\"tcp://192.168.100.101:29542\", rank=0, world_size=1)\n", "warning:  A group of one process", ""},                                                              // ROCm/rccl/issues/474
		{"a.py", "import torch.distributed as dist\ndist.init_process_group(backend='nccl', init_method=\"tcp://127.0.0.1:29542\", rank=0, world_size=1)\n", "", "A group of one process"},
		{"a.txt", "Traceback (most recent call last):\n  File \"/usr/lib/python3.6/torch/utils/data/_utils/pin_memory.py\", line 21, in _pin_memory_loop\n    r = in_queue.get()\nConnectionResetError: [Errno 104] Connection reset by peer\n", "is of PyTorch's DataLoader", ""}, // deepspeedai/DeepSpeed/issues/887
		{"a.txt", "发现两个节点都卡在了init nccl后，一直卡住\n", "ranks on several hosts", "of no second host"},                                                                                                                                                                                    // PaddlePaddle/Paddle/issues/51096
		{"a.log", "d-9:2870757:2870757 [0] NCCL INFO comm 0x560c rank 0 nranks 2 cudaDev 0 busId 86000 - Abort COMPLETE\nd-9:2870756:2870756 [0] NCCL INFO comm 0x5559 rank 1 nranks 2 cudaDev 0 busId 86000 - Abort COMPLETE\n", "error:  Two ranks on one GPU", ""},              // pytorch/examples/issues/1279
		{"a.log", "d-8:2870757:2870757 [0] NCCL INFO comm 0x560c rank 0 nranks 2 cudaDev 0 busId 86000 - Abort COMPLETE\nd-9:2870756:2870756 [0] NCCL INFO comm 0x5559 rank 1 nranks 2 cudaDev 0 busId 86000 - Abort COMPLETE\n", "", "Two ranks on one GPU"},
		{"a.yaml", "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: w\n    env:\n    - name: NCCL_DEBUG\n      value: INFO\n    - name: LD_LIBRARY_PATH\n      value: /opt/x/lib:$LD_LIBRARY_PATH\n", "line 10: error: LD_LIBRARY_PATH Not expanded by Kubernetes", ""}, // awslabs/awsome-distributed-ai/pull/881
		{"a.yaml", "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: w\n    env:\n    - name: NCCL_DEBUG\n      value: $NCCL_DEBUG\n    - name: LD_LIBRARY_PATH\n      value: /opt/x/lib:$(BASE)\n", "", "Not expanded"},
		{"a.log", "fi_info -p efa lists 16 devices\na:1:2 [0] NCCL INFO NET/IB : No device found.\n", "", "beside EFA"},
	} {
		got := asText(Explain(c.name, c.text, nil, fabric.Invocation{}))
		if !strings.Contains(got, c.says) || c.notSays != "" && strings.Contains(got, c.notSays) {
			t.Errorf("%s: want %q and not %q:\n%s", c.text, c.says, c.notSays, got)
		}
	}
}
