package perftest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func said(exit int, stderr string) ProgramRun { return ProgramRun{Exit: exit, Stderr: []byte(stderr)} }

const (
	waiting = "\n************************************\n* Waiting for client to connect... *\n************************************\n"
	agreed  = " local address: LID 0000 QPN 0x0011 PSN 0xe2d1f8\n remote address: LID 0000 QPN 0x0015 PSN 0x3af02\n"
	gone    = "ethernet_read_keys: Couldn't read remote address\n Unable to read to socket/rdma_cm\n Failed to exchange data between server and clients\n"
	refused = "Couldn't connect to 10.99.0.2:18515\nUnable to open file descriptor for socket connection\n Unable to init the socket connection\n"
)

// The wordings are put together by hand from the source's format strings.
func TestClassifyNamesTheCause(t *testing.T) {
	timedOut := func(stdout string) ProgramRun { return ProgramRun{Stdout: []byte(stdout), TimedOut: true, Exit: -1} }
	ok := said(0, "")
	for _, c := range []struct {
		name           string
		server, client ProgramRun
		cause          Cause
		side           Side
		said           string
	}{
		{"server's program is missing", ProgramRun{Missing: true}, said(1, refused), NotInstalled, Server, ""},
		{"nobody listens", timedOut(waiting), said(1, refused), NoControl, Client, "Couldn't connect to 10.99.0.2:18515"},
		{"the port is taken", said(1, "Couldn't listen to port 18515\nUnable to open file descriptor for socket connection\n Unable to init the socket connection\n"), said(1, refused), PortBusy, Server, "Couldn't listen to port 18515"},
		{"the server's port is down", said(1, " Port number 1 state is Down\n Couldn't set the link layer\n Couldn't get context for the device\n"), said(1, refused), PortDown, Server, "Port number 1 state is Down"},
		{"no such device", said(1, "IB device rxe9 not found\n Unable to find the Infiniband/RoCE device\n"), said(1, refused), NoSuchDevice, Server, "IB device rxe9 not found"},
		{"no library", said(1, "libibverbs: Warning: no userspace device-specific driver found for /sys/class/infiniband_verbs/uverbs0\n Did not detect devices \n"), said(1, refused), NoProvider, Server, "libibverbs: Warning: no userspace device-specific driver found for /sys/class/infiniband_verbs/uverbs0"},
		{"no such GID", said(1, gone), said(1, " Unable to set up socket connection\n"), NoGID, Client, "Unable to set up socket connection"},
		{"families differ", said(1, "\n Found Incompatibility issue with GID types.\n Please Try to use a different IP version.\n\n"), said(1, "\n Found Incompatibility issue with GID types.\n"), GIDFamilies, Client, "Found Incompatibility issue with GID types."},
		{"memlock", said(1, gone), said(1, "Couldn't allocate MR\nfailed to create mr\nFailed to create MR\n Couldn't create IB resources\n"), Memlock, Client, "Couldn't allocate MR"},
		{"memlock, newer", said(1, "Couldn't allocate MR with error=12\nfailed to create mr\n"), said(1, gone), Memlock, Server, "Couldn't allocate MR with error=12"},
		{"queue pairs", said(1, gone), said(1, "Unable to create QP.\nFailed to create QP.\n Couldn't create IB resources\n"), NoQueues, Client, "Unable to create QP."},
		{"no ARP", said(1, gone), said(1, "Failed to modify QP 17 to RTR\n Unable to Connect the HCA's through the link\n"), NoPath, Client, "Failed to modify QP 17 to RTR"},
		{"too old", said(1, "Current implementation is not compatible with versions older than 5.70\n"), said(1, gone), VersionsDiffer, Server, "Current implementation is not compatible with versions older than 5.70"},
		{"other tests", said(1, " size mismatch: local=2, remote=65536\n Failed to negotiate parameters\n"), said(1, " size mismatch: local=65536, remote=2\n"), OptionsDiffer, Client, "size mismatch: local=65536, remote=2"},
		{"retries", timedOut(waiting + agreed), said(1, " Completion with error at client\n Failed status 12: wr_id 0 syndrom 0x81\nscnt=128, ccnt=0\n Failed to complete run_iter_bw function successfully\n"), RetriesExceeded, Client, "Failed status 12: wr_id 0 syndrom 0x81"},
		{"the cause is not what was flushed", said(1, " Failed status 12: wr_id 0 syndrom 0x81\n"), said(1, " Failed status 5: wr_id 0 syndrom 0xf9\n"), RetriesExceeded, Server, "Failed status 12: wr_id 0 syndrom 0x81"},
		{"flushed only", timedOut(agreed), said(1, " Failed status 5: wr_id 0 syndrom 0xf9\n"), CompletionError, Client, "Failed status 5: wr_id 0 syndrom 0xf9"},
		{"no receive buffers", ok, said(1, "Poll send CQ error status=13 qp 0\n"), ReceiverNotReady, Client, "Poll send CQ error status=13 qp 0"},
		{"access", ok, said(1, " Failed status 10: wr_id 0 syndrom 0x88\n"), AccessRefused, Client, "Failed status 10: wr_id 0 syndrom 0x88"},
		{"a status of tomorrow", ok, said(1, " Failed status 77: wr_id 0 syndrom 0x88\n"), CompletionError, Client, "Failed status 77: wr_id 0 syndrom 0x88"},
		{"the receiver gave up and exits with 0", said(0, " Did not get Message for 120 Seconds, exiting..\n Total Received=0, Total Iters Required=1000\n"), ok, SilentData, Server, "Did not get Message for 120 Seconds, exiting.."},
		{"no clock", ok, said(1, "Can't produce a report\n"), ClockUnusable, Client, "Can't produce a report"},
		{"a clock that gives no times", said(0, "Correlation coefficient r^2: 0.83 < 0.9\n"), said(0, "Correlation coefficient r^2: 0.83 < 0.9\n"), ClockUnusable, Client, "Correlation coefficient r^2: 0.83 < 0.9"},
		{"data dropped without a word", timedOut(waiting + agreed), timedOut(agreed), SilentData, Client, ""},
		{"data dropped, the server hears its client die", said(1, gone), timedOut(agreed), SilentData, Client, ""},
		{"control dropped", timedOut(waiting), timedOut(""), SilentControl, Client, ""},
		{"a server left over", timedOut(waiting), ok, SilentControl, Server, ""},
		{"server killed", ProgramRun{Exit: -1, Signal: "killed"}, said(1, gone), Killed, Server, ""},
		{"client gone", said(1, gone), ok, PeerGone, Client, "ethernet_read_keys: Couldn't read remote address"},
		{"no words", ok, said(3, ""), UnexplainedStatus, Client, ""},
		{"unknown words", said(2, "out of cheese\n"), ok, UnexplainedStatus, Server, "out of cheese"},
	} {
		got, failed := Classify(c.server, c.client)
		if !failed || got.Cause != c.cause || got.Side != c.side || got.Said != c.said || got.Sentence == "" || got.Cure == "" {
			t.Errorf("%s: %v %+v", c.name, failed, got)
		}
	}
	if got, failed := Classify(said(0, "Conflicting CPU frequency values detected\n"), ok); failed {
		t.Errorf("a warning is no failure: %+v", got)
	}
	if got, failed := Classify(said(0, "Correlation coefficient r^2: 0.83 < 0.9\n"), ok); failed {
		t.Errorf("the server's times are not used: %+v", got)
	}
}

// Files are named real-CAUSE-…-SIDE.txt, and are what a program truly wrote; it ended with 1.
func TestRealFailuresAreNamed(t *testing.T) {
	files := fixtures(t, "testdata/failures/real-*.txt")
	if len(files) == 0 {
		t.Fatal("no fixtures")
	}
	for name, text := range files {
		server, client := said(0, ""), said(1, string(text))
		if strings.HasSuffix(name, "-server.txt") {
			server, client = client, server
		}
		got, failed := Classify(server, client)
		want := strings.TrimPrefix(filepath.Base(name), "real-")
		if !failed || !strings.HasPrefix(want, string(got.Cause)+"-") || !strings.HasSuffix(want, "-"+string(got.Side)+".txt") {
			t.Errorf("%s: %v %+v", name, failed, got)
		}
	}
}

// Both hosts may have the same old release: "the same release on both" is no cure then. The words are those of
// testdata/failures/real-bad-arguments-4.5-client.txt, with the option of a test over IPv6.
func TestOldReleasesCannotConnectOverIPv6(t *testing.T) {
	got, _ := Classify(said(1, gone), said(1, "ib_read_bw: unrecognized option '--ipv6-addr'\n Invalid Command or flag.\n"))
	if got.Cause != BadArguments || !strings.Contains(got.Sentence, "IPv6") || !strings.Contains(got.Cure, "23.07") {
		t.Errorf("%+v", got)
	}
}

func TestLongLinesAreShortened(t *testing.T) {
	got, _ := Classify(said(0, ""), said(1, "Failed status 12: "+strings.Repeat("ü", 500)+"\n"))
	if len(got.Said) > 210 || !strings.HasSuffix(got.Said, "…") {
		t.Errorf("%d bytes: %q", len(got.Said), got.Said)
	}
}

func FuzzParseText(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := ParseText(text)
		if err == nil && len(r.Bandwidth)+len(r.Latency) > strings.Count(string(text), "\n")+1 {
			t.Errorf("more rows than lines")
		}
		for _, a := range append(r.Local, r.Remote...) {
			if a.GID.IsValid() && a.GID.BitLen() != 128 {
				t.Errorf("GID %s", a.GID)
			}
		}
	})
}

func FuzzParseJSON(f *testing.F) {
	for _, text := range fixtures(f, "testdata/handmade/*.out_json") {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if r, err := ParseJSON(text); err == nil && len(r.Bandwidth)+len(r.Latency) != 1 {
			t.Errorf("%+v", r)
		}
	})
}

func FuzzParseVersion(f *testing.F) {
	f.Add([]byte("Version: 6.06\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if v, err := ParseVersion(text); err == nil && (v.Major < 0 || v.Minor < 0) {
			t.Errorf("%+v", v)
		}
	})
}

func FuzzClassify(f *testing.F) {
	for _, text := range fixtures(f, "testdata/failures/*.txt") {
		f.Add(text, []byte(gone), 1, 0, "", false)
	}
	f.Add([]byte(refused), []byte(waiting), 1, 0, "", true)
	f.Add([]byte("Failed status 12: wr_id 0"), []byte(agreed), 1, 0, "killed", false)
	f.Fuzz(func(t *testing.T, stderr, stdout []byte, server, client int, signal string, timedOut bool) {
		got, failed := Classify(ProgramRun{Stderr: stderr, Exit: server, TimedOut: timedOut}, ProgramRun{Stdout: stdout, Exit: client, Signal: signal})
		if failed && (got.Cause == "" || got.Sentence == "" || got.Cure == "" || len(got.Said) > 700) {
			t.Errorf("%+v", got)
		}
		if !failed && (server != 0 || client != 0 || timedOut || signal != "") {
			t.Error("a failure was not seen")
		}
	})
}

func seed(f *testing.F) {
	for _, pattern := range []string{"testdata/handmade/*.txt", "testdata/real/*.txt", "testdata/failures/*.txt"} {
		for _, text := range fixtures(f, pattern) {
			f.Add(text)
		}
	}
	if _, err := os.Stat("testdata/real"); err != nil {
		f.Fatal(err)
	}
}
