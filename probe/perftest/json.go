package perftest

import (
	"encoding/json"
	"fmt"
	"strings"
)

// jsonReport is the file of --out_json_file (write_test_info_to_file and the functions after it in
// perftest_parameters.c). It has no addresses and no units.
type jsonReport struct {
	Info struct {
		Test       string `json:"test"`
		Device     string `json:"Device"`
		QPs        int    `json:"Number_of_qps"`
		Transport  string `json:"Transport_type"`
		Connection string `json:"Connection_type"`
		MTU        int    `json:"Mtu"`
		LinkType   string `json:"Link_type"`
		GIDIndex   *int   `json:"GID_index"`
	} `json:"test_info"`
	Results *struct {
		Size       int64    `json:"MsgSize"`
		Iterations int64    `json:"n_iterations"`
		Peak       float64  `json:"BW_peak"`
		Average    *float64 `json:"BW_average"`
		Rate       float64  `json:"MsgRate"`
		Min        float64  `json:"t_min"`
		Max        float64  `json:"t_max"`
		Typical    float64  `json:"t_typical"`
		AverageUs  *float64 `json:"t_avg"`
		StdDev     float64  `json:"t_stdev"`
		P99        float64  `json:"percentile_99"`
		P999       float64  `json:"percentile_99.9"`
		TPS        float64  `json:"tps_average"`
		CPU        float64  `json:"CPU_util"`
	} `json:"results"`
}

// ParseJSON parses a report's file, for versions with WritesJSON. The file has one row, because perftest rewrites it
// for each size. ParseJSON assumes bandwidths in Gb/s, which Args asks for; the file does not have the unit.
func ParseJSON(file []byte) (Output, error) {
	var in jsonReport
	if err := json.Unmarshal(file, &in); err != nil {
		return Output{}, fmt.Errorf("read perftest's JSON: %w", err)
	}
	p := textParser{report: Output{
		Device: in.Info.Device, QPs: in.Info.QPs, Transport: in.Info.Transport, Connection: in.Info.Connection,
		MTU: in.Info.MTU, LinkType: in.Info.LinkType, GIDIndex: in.Info.GIDIndex,
	}}
	// The test is the title of the text report with _ for spaces, such as RDMA_Write_BW_Test.
	verb, rest, ok := strings.Cut(strings.TrimPrefix(in.Info.Test, "RDMA_"), "_")
	if strings.HasPrefix(in.Info.Test, "RDMA_") {
		verb = "RDMA_" + verb
	}
	if ok {
		p.title(verb + " " + strings.ReplaceAll(rest, "_", " "))
	}
	r := in.Results
	switch {
	case r == nil:
		return p.report, fmt.Errorf("read perftest's JSON: the report has no results")
	case r.Average != nil:
		p.report.Bandwidth = []Bandwidth{{Size: r.Size, Iterations: r.Iterations, PeakGbps: r.Peak, AverageGbps: *r.Average,
			RateMpps: r.Rate, CPUPercent: r.CPU}}
	case r.AverageUs != nil:
		p.report.Latency = []Latency{{Size: r.Size, Iterations: r.Iterations, MinUs: r.Min, MaxUs: r.Max,
			TypicalUs: r.Typical, AverageUs: *r.AverageUs,
			StdDevUs: r.StdDev, P99Us: r.P99, P999Us: r.P999, TPS: r.TPS, CPUPercent: r.CPU}}
	default:
		return p.report, fmt.Errorf("read perftest's JSON: the results are neither bandwidth nor latency")
	}
	return p.report, nil
}
