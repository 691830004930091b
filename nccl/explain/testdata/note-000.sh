sudo ./mlnxofedinstall
ibv_devinfo
sudo mlxconfig -d /dev/mst/mt4127_pciconf0 q | grep LINK_TYPE
sudo ip addr add 192.168.88.1/24 dev ens19f0np0
sudo ip addr add 192.168.88.11/24 dev ens19f1np1
iperf3 -c 192.168.88.22
rsync -avz --checksum ./sync_test tutu@192.168.88.2:/home/tutu/sync_test
export NCCL_IB_DISABLE=1
export NCCL_SOCKET_IFNAME=ens19f0np0
rpm -q rdma-core
