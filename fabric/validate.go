package fabric

import "time"

// Validate holds thresholds of the live checks.
type Validate struct {
	// Which pairs of members of a network are measured: neighbours in a ring, or all pairs. Default: all pairs up to four
	// members, a ring above.
	Pairs string `ff:"pairs,one=ring|all"`
	// ICMP echo with full-size packets that must not be fragmented.
	Ping PingCheck `ff:"ping,block"`
	// TCP throughput in each direction.
	TCP TCPCheck `ff:"tcp,block"`
	// RDMA verbs, in NCCL's traffic class and service level. Skipped, with the reason, if there is no RDMA device.
	Verbs VerbsCheck `ff:"verbs,block"`
	// NCCL collectives.
	NCCL NCCLCheck `ff:"nccl,block"`
}

// PingCheck holds the thresholds of the ICMP check. If MaxRTT is nil, latency is reported but not judged.
type PingCheck struct {
	// Whether the check runs.
	Enabled bool `ff:"enabled,default=true"`
	// Number of packets.
	Count int `ff:"count,min=1,max=100000,default=10"`
	// Largest allowed packet loss, in percent.
	MaxLossPercent float64 `ff:"max_loss_percent,min=0,max=100,default=0"`
	// Largest allowed mean round-trip time, such as `"200us"`. Default: reported but not judged.
	MaxRTT *time.Duration `ff:"max_rtt"`
}

// TCPCheck holds the thresholds of the throughput check, per direction.
type TCPCheck struct {
	// Whether the check runs.
	Enabled bool `ff:"enabled,default=true"`
	// How long to send.
	Duration time.Duration `ff:"duration,default=3s"`
	// Number of parallel connections.
	Streams int `ff:"streams,min=1,max=128,default=4"`
	// Smallest allowed throughput, in Gb/s.
	MinGbps *float64 `ff:"min_gbps,min=0,least=0.000001,max=1000000"`
	// Smallest allowed fraction of the expected speed. Default: 0.9 if a speed is declared.
	MinFraction *float64 `ff:"min_fraction,min=0,least=0.000001,max=1"`
}

// VerbsCheck holds the thresholds of the RDMA check, per direction.
type VerbsCheck struct {
	// Whether the check runs.
	Enabled bool `ff:"enabled,default=true"`
	// Programs of perftest, without the prefix `ib_`.
	Tests []string `ff:"tests,one=send_lat|send_bw|write_lat|write_bw|read_lat|read_bw,default=send_lat write_bw"`
	// Message size in bytes. Default: that of each program.
	Size int `ff:"size,min=1,max=1073741824"`
	// Duration of each bandwidth test.
	Duration time.Duration `ff:"duration,default=3s"`
	// Smallest allowed bandwidth, in Gb/s.
	MinGbps *float64 `ff:"min_gbps,min=0,least=0.000001,max=1000000"`
	// Smallest allowed fraction of the expected speed.
	MinFraction *float64 `ff:"min_fraction,min=0,least=0.000001,max=1"`
	// Largest allowed typical latency, such as `"5us"`.
	MaxLatency *time.Duration `ff:"max_latency"`
}

// NCCLCheck holds the thresholds of the collective check.
type NCCLCheck struct {
	// Whether the check runs.
	Enabled bool `ff:"enabled,default=true"`
	// Program that runs the collectives, one rank for each GPU: `torch` runs PyTorch, which the helpers start; `nccl-tests` runs
	// NVIDIA's programs with `mpirun`, which needs a `login_mesh` that has all the hosts, or with Slurm's `srun`, if all are reached by `slurm`.
	Run string `ff:"run,one=none|torch|nccl-tests,default=none"`
	// Path on the hosts of a Python that has torch. Default: the system's `python3`.
	Python string `ff:"python,shape=program"`
	// Directory on the hosts with the programs of nccl-tests, built with `MPI=1`. Default: the system's.
	NCCLTests string `ff:"nccl_tests,shape=folder"`
	// Path on the hosts of the `mpirun` of Open MPI or MPICH. Default: the system's. Slurm needs none.
	MPIRun string `ff:"mpirun,shape=program"`
	// Smallest allowed bus bandwidth, in GB/s.
	MinBusbwGBs *float64 `ff:"min_busbw_gbs,min=0,least=0.000001,max=1000000"`
}
