export NCCL_IBEXT_DISABLE="1"
export NCCL_IB_DISABLE="0"
export NCCL_IB_GID_INDEX="3"
export NCCL_IB_HCA="mlx5_1:1,mlx5_2:1,mlx5_3:1,mlx5_4:1,mlx5_5:1,mlx5_6:1,mlx5_7:1,mlx5_8:1"
export NCCL_IB_PCI_RELAXED_ORDERING="1"
export NCCL_IB_RETRY_CNT="7"
export NCCL_IB_TIMEOUT="23"
export NCCL_SOCKET_IFNAME="eth0"
mpirun -np 16 \
        -H xx.xx.xx.xx:8,xx.xx.xx.xx:8 \
        --allow-run-as-root -bind-to none -map-by slot \
        -x NCCL_DEBUG=INFO \
        -x NCCL_IB_GID_INDEX=3 \
        -x NCCL_IB_DISABLE=0 \
        -x NCCL_SOCKET_IFNAME=eth0 \
        -x NCCL_NET_GDR_LEVEL=2 \
        -x NCCL_IB_QPS_PER_CONNECTION=4 \
        -x NCCL_IB_TC=160 \
        -x LD_LIBRARY_PATH -x PATH \
        -mca coll_hcoll_enable 0 -mca pml ob1 -mca btl_tcp_if_include eth0 -mca btl ^openib \
        ./build/all_reduce_perf -b 32M -e 1G -i 1000 -f 2 -g 1
