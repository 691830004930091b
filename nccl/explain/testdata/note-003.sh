$ ip ro add 10.245.163.0/8 via 192.168.0.1 dev xgbe0 src 23.10.2.22 table 100
$ ib_write_bw -d mlx5_0 -x 3
$ ib_write_bw -d mlx5_0 -x 3  --run_infinitely ${server_ip}
mpirun --allow-run-as-root \
        --np 2 \
        --map-by node \
        --mca btl self,tcp \
        --mca btl_tcp_if_include xgbe0 \
        --hostfile /home/nccl/hostfile \
        -x NCCL_SOCKET_IFNAME=xgbe0 \
        -x NCCL_IB_HCA=mlx5_0 \
        -x PATH \
        -x NCCL_IB_GID_INDEX=3 \
        /home/nccl/all_reduce_perf -b 1024 -e 4G -f 2 -g 1 -t 8 -c 0 -n 20
