package probe

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/host/dcb"
)

// ReadPriorities reads what a NIC counts for each priority, and how it chooses and protects priorities, by the name of its netdev.
var ReadPriorities = agent.Method[string, Priorities]("counters.priorities")

// Priorities is what a NIC counts for each priority since its driver was loaded, and how it chooses and protects them.
type Priorities struct {
	Statistics []Statistic `json:"statistics,omitempty"` // sorted by name; those that the driver has
	DCB        *DCB        `json:"dcb,omitempty"`        // nil: the driver has none
}

// DCB is how a NIC chooses and protects priorities, as dcbnl shows it (include/uapi/linux/dcbnl.h).
type DCB struct {
	PFC       []int       `json:"pfc,omitempty"`  // the priorities that have priority flow control
	DSCP      map[int]int `json:"dscp,omitempty"` // the priority of each mapped DSCP
	TrustsPCP bool        `json:"trusts_pcp,omitempty"`
}

// WholePort is the priority of what concerns all priorities.
const WholePort = -1

// Counted is what a statistic counts.
type Counted string

// The kinds of statistics.
const (
	Packets      Counted = "packets"
	Bytes        Counted = "bytes"               // with all headers from Ethernet's on
	PauseFrames  Counted = "pause_frames"        // of PFC, or of IEEE 802.3x for the whole port
	PausedMicros Counted = "paused_microseconds" // how long the other end was to be silent
	Discards     Counted = "discards"
	Marked       Counted = "ecn_marked"
	PauseStorms  Counted = "pause_storms" // the NIC has paused the network for too long, as its firmware judges
)

// Statistic is one counter of a NIC.
type Statistic struct {
	Name     string  `json:"name"` // the driver's
	Counts   Counted `json:"counts"`
	Sent     bool    `json:"sent,omitempty"` // by this NIC; otherwise received
	Priority int     `json:"priority"`       // or WholePort
	Value    uint64  `json:"value"`
}

// statistics are the names of drivers, with N in the place of the priority.
//
// mlx5: drivers/net/ethernet/mellanox/mlx5/core/en_stats.c of Linux (pport_per_prio_traffic_stats_desc, pport_per_prio_pfc_stats_desc,
// pport_per_tc_prio_stats_desc, pport_per_tc_congest_prio_stats_desc, pport_pfc_stall_stats_desc, pport_2863_stats_desc). Pauses are there for
// priorities with PFC only, or for the whole port.
//
// bnxt_en: drivers/net/ethernet/broadcom/bnxt/bnxt_ethtool.c (BNXT_RX_STATS_PRI_ENTRIES, bnxt_port_stats_arr,
// BNXT_RX_STATS_EXT_PFC_ENTRY, BNXT_RX_STATS_EXT_DISCARD_COS_ENTRIES, bnxt_sw_func_stats). Its queues (cos) are not priorities.
//
// ice: drivers/net/ethernet/intel/ice/ice_ethtool.c (__ice_get_strings, ice_gstrings_pf_stats). It does not count packets by priority.
var statistics = sync.OnceValue(func() map[string]Statistic {
	out := map[string]Statistic{}
	for _, s := range []Statistic{
		{Name: "rx_prioN_packets", Counts: Packets}, {Name: "tx_prioN_packets", Counts: Packets, Sent: true},
		{Name: "rx_prioN_bytes", Counts: Bytes}, {Name: "tx_prioN_bytes", Counts: Bytes, Sent: true},
		{Name: "rx_prioN_pause", Counts: PauseFrames}, {Name: "tx_prioN_pause", Counts: PauseFrames, Sent: true},
		{Name: "rx_prioN_pause_duration", Counts: PausedMicros}, {Name: "tx_prioN_pause_duration", Counts: PausedMicros, Sent: true},
		{Name: "rx_prioN_discards", Counts: Discards}, {Name: "rx_prioN_buf_discard", Counts: Discards},
		{Name: "rx_prioN_cong_discard", Counts: Discards}, {Name: "rx_prioN_marked", Counts: Marked},
		{Name: "rx_global_pause", Counts: PauseFrames}, {Name: "tx_global_pause", Counts: PauseFrames, Sent: true},
		{Name: "rx_global_pause_duration", Counts: PausedMicros}, {Name: "tx_global_pause_duration", Counts: PausedMicros, Sent: true},
		{Name: "tx_pause_storm_warning_events", Counts: PauseStorms, Sent: true},
		{Name: "tx_pause_storm_error_events", Counts: PauseStorms, Sent: true},
		{Name: "rx_discards_phy", Counts: Discards}, {Name: "tx_discards_phy", Counts: Discards, Sent: true},

		{Name: "rx_packets_priN", Counts: Packets}, {Name: "tx_packets_priN", Counts: Packets, Sent: true},
		{Name: "rx_bytes_priN", Counts: Bytes}, {Name: "tx_bytes_priN", Counts: Bytes, Sent: true},
		{Name: "rx_pfc_ena_frames_priN", Counts: PauseFrames}, {Name: "tx_pfc_ena_frames_priN", Counts: PauseFrames, Sent: true},
		{Name: "pfc_priN_rx_duration_us", Counts: PausedMicros}, {Name: "pfc_priN_tx_duration_us", Counts: PausedMicros, Sent: true},
		{Name: "rx_pause_frames", Counts: PauseFrames}, {Name: "tx_pause_frames", Counts: PauseFrames, Sent: true},
		{Name: "rx_discard_packets_cosN", Counts: Discards, Priority: WholePort},
		{Name: "rx_total_discard_pkts", Counts: Discards}, {Name: "tx_total_discard_pkts", Counts: Discards, Sent: true},
		{Name: "rx_total_ring_discards", Counts: Discards}, {Name: "tx_total_ring_discards", Counts: Discards, Sent: true}, // the names since Linux 6.6

		{Name: "rx_priority_N_xoff.nic", Counts: PauseFrames}, {Name: "tx_priority_N_xoff.nic", Counts: PauseFrames, Sent: true},
		{Name: "link_xoff_rx.nic", Counts: PauseFrames}, {Name: "link_xoff_tx.nic", Counts: PauseFrames, Sent: true},
		{Name: "rx_dropped.nic", Counts: Discards},
	} {
		before, after, each := strings.Cut(s.Name, "N")
		if whole := s.Priority == WholePort; each {
			for p := range dcb.Priorities {
				if s.Name = before + strconv.Itoa(p) + after; !whole {
					s.Priority = p
				}
				out[s.Name] = s
			}
			continue
		}
		s.Priority = WholePort
		out[s.Name] = s
	}
	return out
})

// read returns the statistics among a driver's counters, sorted by name. What ethtool does not show, dcbnl may: mlx5 shows the pauses of
// priorities with PFC only.
func read(counters map[string]uint64, pfc *pfcCounts) (out []Statistic) {
	shown := map[[2]any]bool{}
	for name, value := range counters {
		if s, known := statistics()[name]; known {
			s.Value = value
			out = append(out, s)
			shown[[2]any{s.Priority, s.Sent}] = shown[[2]any{s.Priority, s.Sent}] || s.Counts == PauseFrames
		}
	}
	for p := range dcb.Priorities {
		for sent, counts := range map[bool]string{false: "indications", true: "requests"} {
			if pfc != nil && !shown[[2]any{p, sent}] {
				out = append(out, Statistic{Name: "pfc_" + counts + "_" + strconv.Itoa(p), Counts: PauseFrames, Sent: sent, Priority: p,
					Value: pfc.of(sent)[p]})
			}
		}
	}
	slices.SortFunc(out, func(a, b Statistic) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// pfcCounts are the PFC frames that dcbnl counts by priority (struct ieee_pfc).
type pfcCounts struct{ requests, indications [dcb.Priorities]uint64 }

func (c pfcCounts) of(sent bool) [dcb.Priorities]uint64 {
	if sent {
		return c.requests
	}
	return c.indications
}
