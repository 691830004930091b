package perftest

import "net/netip"

// Output is the output of one end. Fields that were not printed are zero.
type Output struct {
	// Test is from the title; empty if the title is missing or unknown.
	Test          Test   `json:"test,omitempty"`
	Bidirectional bool   `json:"bidirectional,omitempty"`
	Device        string `json:"device,omitempty"`
	QPs           int    `json:"qps,omitempty"`
	// Transport is IB, also for RoCE.
	Transport  string `json:"transport,omitempty"`
	Connection string `json:"connection,omitempty"` // RC, UC, UD, …
	// MTU is the path MTU in bytes: the smaller of the two ports' MTUs (check_mtu in
	// perftest_communication.c). So it does not show that the ports differ.
	MTU      int    `json:"mtu,omitempty"`
	LinkType string `json:"link_type,omitempty"` // Ethernet or IB
	// GIDIndex is nil if no GID is used, as on InfiniBand without -x.
	GIDIndex *int      `json:"gid_index,omitempty"`
	Version  string    `json:"version,omitempty"`
	Local    []Address `json:"local,omitempty"`  // one for each queue pair
	Remote   []Address `json:"remote,omitempty"` // as the peer reported them
	// Bandwidth and Latency are the rows of the table. A read latency's server has none.
	Bandwidth []Bandwidth `json:"bandwidth,omitempty"`
	Latency   []Latency   `json:"latency,omitempty"`
}

// Address is the address of one queue pair.
type Address struct {
	LID int `json:"lid"` // 0 on Ethernet
	QPN int `json:"qpn"`
	PSN int `json:"psn"`
	// GID has 16 bytes; Unmap returns an IPv4 address in it. It is invalid if none was printed.
	GID netip.Addr `json:"gid,omitzero"`
}

// Bandwidth is one row of a bandwidth test. In a one-way test, the server prints the client's measurement.
type Bandwidth struct {
	Size        int64   `json:"size"` // bytes of a message
	Iterations  int64   `json:"iterations"`
	PeakGbps    float64 `json:"peak_gbps"` // 0 if not measured, as in all tests with a duration
	AverageGbps float64 `json:"average_gbps"`
	RateMpps    float64 `json:"rate_mpps"`             // 10^6 messages a second
	CPUPercent  float64 `json:"cpu_percent,omitempty"` // of the whole machine, with --cpu_util
}

// Latency is one row of a latency test, with times in µs: one way for send and write, the round trip for read. With a
// duration it has only the average and TPS.
type Latency struct {
	Size       int64   `json:"size"` // bytes of a message
	Iterations int64   `json:"iterations"`
	MinUs      float64 `json:"min_us,omitempty"`
	MaxUs      float64 `json:"max_us,omitempty"`
	TypicalUs  float64 `json:"typical_us,omitempty"` // the median
	AverageUs  float64 `json:"average_us"`
	// StdDevUs is computed from differences truncated to whole µs (temp_var in perftest_parameters.c), so it
	// is useful only for large spreads.
	StdDevUs   float64 `json:"std_dev_us,omitempty"`
	P99Us      float64 `json:"p99_us,omitempty"`
	P999Us     float64 `json:"p999_us,omitempty"`
	TPS        float64 `json:"tps,omitempty"` // exchanges a second
	CPUPercent float64 `json:"cpu_percent,omitempty"`
}
