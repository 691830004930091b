package fabric

import "time"

// Validate holds thresholds of the live checks.
type Validate struct {
	// Which members of a network are measured: neighbours, or all pairs. Without it a ring above four members.
	Pairs string `ff:"pairs,one=ring|all"`
	// ICMP echo, with full-size packets that must not be fragmented.
	Ping PingCheck `ff:"ping,block"`
	// TCP throughput, each direction.
	TCP TCPCheck `ff:"tcp,block"`
	// RDMA verbs; skipped with the reason where there is no RDMA device.
	Verbs VerbsCheck `ff:"verbs,block"`
	// NCCL itself.
	NCCL NCCLCheck `ff:"nccl,block"`
}

// PingCheck is the ICMP check's thresholds. Nil MaxRTT: not judged.
type PingCheck struct {
	// Whether the check runs.
	Enabled bool `ff:"enabled,default=true"`
	// Packets.
	Count int `ff:"count,min=1,max=100000,default=10"`
	// Share of the packets that may be lost.
	MaxLossPercent float64 `ff:"max_loss_percent,min=0,max=100,default=0"`
	// Largest mean round-trip time, such as `"200us"`; not judged without it.
	MaxRTT *time.Duration `ff:"max_rtt"`
}

// TCPCheck is the throughput check's thresholds, per direction.
type TCPCheck struct {
	// Whether the check runs.
	Enabled bool `ff:"enabled,default=true"`
	// Time of sending.
	Duration time.Duration `ff:"duration,default=3s"`
	// Connections side by side.
	Streams int `ff:"streams,min=1,max=128,default=4"`
	// Least throughput, Gb/s.
	MinGbps *float64 `ff:"min_gbps,min=0,max=1000000"`
	// Least share of the expected speed; 0.9 where a speed is declared.
	MinFraction *float64 `ff:"min_fraction,min=0,max=1"`
}

// VerbsCheck is the RDMA check's thresholds, per direction.
type VerbsCheck struct {
	// Whether the check runs.
	Enabled bool `ff:"enabled,default=true"`
	// Tests of perftest, without `ib_`.
	Tests []string `ff:"tests,one=send_lat|send_bw|write_lat|write_bw|read_lat|read_bw,default=send_lat write_bw"`
	// Bytes of a message; each test's own without it.
	Size int `ff:"size,min=1,max=1073741824"`
	// Time of each bandwidth test.
	Duration time.Duration `ff:"duration,default=3s"`
	// Least bandwidth, Gb/s.
	MinGbps *float64 `ff:"min_gbps,min=0,max=1000000"`
	// Least share of the expected speed.
	MinFraction *float64 `ff:"min_fraction,min=0,max=1"`
	// Largest typical latency, such as `"5us"`.
	MaxLatency *time.Duration `ff:"max_latency"`
}

// NCCLCheck is the collective check's thresholds.
type NCCLCheck struct {
	// Whether the check runs.
	Enabled bool `ff:"enabled,default=true"`
	// What runs the collectives: `torch` ranks of PyTorch, `nccl-tests` NVIDIA's programs by MPI's `mpirun`, one rank for each GPU. Both go through the helpers.
	Run string `ff:"run,one=none|torch|nccl-tests,default=none"`
	// Path on the hosts of the Python that has torch; the system's `python3` without it.
	Python string `ff:"python,shape=program"`
	// Folder on the hosts with the programs of nccl-tests, built with `MPI=1`; the system's without it.
	NCCLTests string `ff:"nccl_tests,shape=folder"`
	// Path on the hosts of Open MPI's or MPICH's `mpirun`; the system's without it.
	MPIRun string `ff:"mpirun,shape=program"`
	// Least bus bandwidth, GB/s.
	MinBusbwGBs *float64 `ff:"min_busbw_gbs,min=0,max=1000000"`
}
