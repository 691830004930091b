package ncclconf

import (
	"context"
	"io/fs"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
)

// hanging is a host of whose homes some do not answer.
type hanging struct {
	*fake
	mu     sync.Mutex
	asked  map[string]int
	silent map[string]chan struct{} // by path, until it is closed
}

func (h *hanging) Stat(ctx context.Context, p string) (host.FileStat, error) {
	h.mu.Lock()
	h.asked[p]++
	h.mu.Unlock()
	if until := h.silent[p]; until != nil {
		<-until
	}
	return h.fake.Stat(ctx, p)
}

// TestAHomeThatDoesNotAnswerIsLeftBehind: nothing waits longer than homesPatience, the other homes are
// known, and however often it is asked for, one thread hangs for each.
func TestAHomeThatDoesNotAnswerIsLeftBehind(t *testing.T) {
	conf := func(user string) string { return "/home/" + user + "/.nccl.conf" }
	files := map[string]string{"/etc/passwd": "", conf("cid"): "A=1\n", conf("ann"): "A=1\n"}
	for _, user := range []string{"ann", "bob", "cid", "dan"} {
		files["/etc/passwd"] += user + ":x:1000:1000::/home/" + user + ":/bin/sh\n"
	}
	on := newFake(files)
	synctest.Test(t, func(t *testing.T) { // a bubble whose clock jumps
		r := &hanging{fake: on, asked: map[string]int{}, silent: map[string]chan struct{}{conf("ann"): make(chan struct{}), conf("bob"): make(chan struct{})}}
		all := new(homes)
		unknown := []SettingsSource{{Path: conf("ann"), Unknown: true}, {Path: conf("bob"), Unknown: true}, {Path: conf("cid")}}
		for range 3 {
			at := time.Now()
			if got := all.elsewhere(t.Context(), r); !reflect.DeepEqual(got, unknown) || time.Since(at) != homesPatience {
				t.Errorf("after %s: %+v", time.Since(at), got)
			}
		}
		if want := map[string]int{conf("ann"): 1, conf("bob"): 1, conf("cid"): 3, conf("dan"): 3}; !reflect.DeepEqual(r.asked, want) {
			t.Errorf("asked %v", r.asked)
		}
		close(r.silent[conf("ann")])
		close(r.silent[conf("bob")])
		synctest.Wait()
		at := time.Now()
		if got := all.elsewhere(t.Context(), r); !reflect.DeepEqual(got, []SettingsSource{{Path: conf("ann")}, {Path: conf("cid")}}) || time.Since(at) != 0 {
			t.Errorf("once they answer, after %s: %+v", time.Since(at), got)
		}
	})
}

func TestWhereElseNCCLReads(t *testing.T) {
	r := newFake(map[string]string{
		"/etc/passwd":          "root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\nbob:x:1001:1001::/home/bob:/bin/sh\nevil:x:1:1::/home/../etc:/bin/sh\nd:x:2:2::/var/d:/bin/sh\nshort:x\n",
		"/etc/environment":     "PATH=/bin\nNCCL_CONF_FILE=\"/opt/nccl.conf\"\n export NCCL_DEBUG=INFO\n#NCCL_X=1\nNCCL_ALONE\n",
		"/home/ann/.nccl.conf": "NCCL_DEBUG=WARN\n",
		"/etc/.nccl.conf":      "", "/var/d/.nccl.conf": "",
	})
	r.files["/home/bob/.nccl.conf"] = facts.File{FileStat: host.FileStat{Mode: fs.ModeDir | 0o755}}
	got := new(homes).elsewhere(t.Context(), r)
	want := []SettingsSource{{Path: "/etc/environment", Sets: []string{"NCCL_CONF_FILE=/opt/nccl.conf", "NCCL_DEBUG=INFO"}}, {Path: "/home/ann/.nccl.conf"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if none := new(homes).elsewhere(t.Context(), newFake(nil)); none != nil {
		t.Errorf("%+v", none)
	}
}
