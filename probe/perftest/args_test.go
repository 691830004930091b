package perftest

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestArgsOfBothEndsDifferOnlyInWhatIsTheirs(t *testing.T) {
	peer := netip.MustParseAddr("10.99.0.2")
	a := End{Device: "rocep39s0f0", Port: 1, GIDIndex: 3, Peer: peer}
	b := End{Device: "mlx5_0", Port: 2, GIDIndex: 5}
	for _, c := range []struct {
		spec           Spec
		client, server string
	}{
		{Spec{Test: WriteBW, Size: 1 << 20, Duration: 5 * time.Second, QPs: 4, TrafficClass: 106, ServiceLevel: 3, ControlPort: 18600},
			"ib_write_bw -F -d rocep39s0f0 -i 1 -x 3 -p 18600 -s 1048576 -D 5 --report_gbits -q 4 --tclass=106 --sl=3 10.99.0.2",
			"ib_write_bw -F -d mlx5_0 -i 2 -x 5 -p 18600 -s 1048576 -D 5 --report_gbits -q 4 --tclass=106 --sl=3"},
		{Spec{Test: SendBW, Size: 65536, Iterations: 1000, Bidirectional: true, ControlPort: 18600},
			"ib_send_bw -F -d rocep39s0f0 -i 1 -x 3 -p 18600 -s 65536 -n 1000 --report_gbits -q 1 -b 10.99.0.2",
			"ib_send_bw -F -d mlx5_0 -i 2 -x 5 -p 18600 -s 65536 -n 1000 --report_gbits -q 1 -b"},
		{Spec{Test: WriteBW, Size: 65536, Duration: 2 * time.Second, AckTimeout: 16, ControlPort: 18600},
			"ib_write_bw -F -d rocep39s0f0 -i 1 -x 3 -p 18600 -s 65536 -D 2 --report_gbits -q 1 -u 16 10.99.0.2",
			"ib_write_bw -F -d mlx5_0 -i 2 -x 5 -p 18600 -s 65536 -D 2 --report_gbits -q 1 -u 16"},
		{Spec{Test: ReadLat, Size: 2, Iterations: 1000, ControlPort: 18600},
			"ib_read_lat -F -d rocep39s0f0 -i 1 -x 3 -p 18600 -s 2 -n 1000 10.99.0.2",
			"ib_read_lat -F -d mlx5_0 -i 2 -x 5 -p 18600 -s 2 -n 1000"},
	} {
		for end, want := range map[End]string{a: c.client, b: c.server} {
			got, err := Args(c.spec, end)
			if err != nil || strings.Join(got, " ") != want {
				t.Errorf("got  %q %v\nwant %q", strings.Join(got, " "), err, want)
			}
		}
	}
	b.JSONFile = "/run/x.json"
	got, err := Args(Spec{Test: SendLat, Size: 2, Iterations: 5, ControlPort: 1, ControlIPv6: true}, b)
	if want := "ib_send_lat -F -d mlx5_0 -i 2 -x 5 -p 1 -s 2 -n 5 --ipv6-addr --out_json --out_json_file=/run/x.json"; err != nil || strings.Join(got, " ") != want {
		t.Errorf("got  %q %v\nwant %q", strings.Join(got, " "), err, want)
	}
}

func TestArgsRefuseWhatCannotRun(t *testing.T) {
	spec := func(change func(*Spec)) Spec {
		s := Spec{Test: WriteBW, Size: 65536, Iterations: 1000, ControlPort: 18515}
		change(&s)
		return s
	}
	end := func(change func(*End)) End {
		e := End{Device: "rxe0", Port: 1, GIDIndex: 1}
		change(&e)
		return e
	}
	good, one := spec(func(*Spec) {}), end(func(*End) {})
	if _, err := Args(good, one); err != nil {
		t.Fatal(err)
	}
	for want, s := range map[string]Spec{
		"unknown perftest program":           spec(func(s *Spec) { s.Test = "atomic_bw" }),
		"invalid message size 0":             spec(func(s *Spec) { s.Size = 0 }),
		"or a duration, not both":            spec(func(s *Spec) { s.Duration = 2 * time.Second }),
		"a number of iterations":             spec(func(s *Spec) { s.Iterations = 0 }),
		"number of iterations 4":             spec(func(s *Spec) { s.Iterations = 4 }),
		"invalid duration 1.5s":              spec(func(s *Spec) { s.Iterations, s.Duration = 0, 1500*time.Millisecond }),
		"invalid duration 24h0m0s":           spec(func(s *Spec) { s.Iterations, s.Duration = 0, 24*time.Hour }),
		"number of queue pairs -1":           spec(func(s *Spec) { s.QPs = -1 }),
		"one queue pair":                     spec(func(s *Spec) { s.Test, s.QPs = SendLat, 2 }),
		"one queue pair, in both directions": spec(func(s *Spec) { s.Test, s.Bidirectional = SendLat, true }),
		"traffic class 256":                  spec(func(s *Spec) { s.TrafficClass = 256 }),
		"service level 16":                   spec(func(s *Spec) { s.ServiceLevel = 16 }),
		"exponent 32 of the ACK timeout":     spec(func(s *Spec) { s.AckTimeout = 32 }),
		"the control port is missing":        spec(func(s *Spec) { s.ControlPort = 0 }),
	} {
		if _, err := Args(s, one); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	for want, e := range map[string]End{
		`"-rf" is not a valid name`:         end(func(e *End) { e.Device = "-rf" }),
		`"rxe0;reboot" is not a valid name`: end(func(e *End) { e.Device = "rxe0;reboot" }),
		`"" is not a valid name`:            end(func(e *End) { e.Device = "" }),
		"has no port 0":                     end(func(e *End) { e.Port = 0 }),
		"GID index -1":                      end(func(e *End) { e.GIDIndex = -1 }),
		"GID index 65":                      end(func(e *End) { e.GIDIndex = 65 }),
		"cannot go to fd00::1":              end(func(e *End) { e.Peer = netip.MustParseAddr("fd00::1") }),
	} {
		if _, err := Args(good, e); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// The table of expected numbers that the field uses, and one measurement: 92.57 Gb/s at MTU 1024 on
// 100 Gb/s.
func TestGoodput(t *testing.T) {
	for _, c := range []struct {
		gbps      float64
		mtu       int
		want, six float64
	}{{10, 1024, 9.26, 9.09}, {25, 1024, 23.15, 22.74}, {25, 4096, 24.51, 24.39}, {100, 2048, 96.15, 95.26}, {200, 4096, 196.07, 195.14}, {25, 0, 0, 0}} {
		if got := Goodput(c.gbps, c.mtu); got < c.want-0.01 || got > c.want+0.01 {
			t.Errorf("%v at %d: %.3f, want %.2f", c.gbps, c.mtu, got, c.want)
		}
		if got := Goodput6(c.gbps, c.mtu); got < c.six-0.01 || got > c.six+0.01 {
			t.Errorf("%v at %d over IPv6: %.3f, want %.2f", c.gbps, c.mtu, got, c.six)
		}
	}
}
