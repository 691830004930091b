package facts

import (
	"context"
	"io/fs"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fabricform/fabricform/host"
)

// still is a host without a network, which notes what is looked at.
type still struct {
	tree
	looked map[string]bool
}

func (still) Links(_ context.Context) ([]host.Link, error)   { return nil, nil }
func (still) Addrs(_ context.Context) ([]host.Addr, error)   { return nil, nil }
func (still) Routes(_ context.Context) ([]host.Route, error) { return nil, nil }
func (still) Rules(_ context.Context) ([]host.Rule, error)   { return nil, nil }
func (still) Sysctl(context.Context, string) (string, error) { return "", fs.ErrNotExist }
func (still) Dump(context.Context, uint16) ([][]byte, error) { return nil, nil }
func (s still) note(p string)                                { s.looked[p] = true }
func (s still) ReadFile(ctx context.Context, p string) ([]byte, error) {
	s.note(p)
	return s.tree.ReadFile(ctx, p)
}

func (s still) Stat(ctx context.Context, p string) (host.FileStat, error) {
	s.note(p)
	return s.tree.Stat(ctx, p)
}

// TestGatherNeverLooksIntoHomes: a home may be on a file server that only the fabric leads to, and a
// read of it waits as long as the fabric is down.
func TestGatherNeverLooksIntoHomes(t *testing.T) {
	const at = "/home/ann/.nccl.conf"
	r := etc(t, map[string]string{"/etc/passwd": "ann:x:1000:1000::/home/ann:/bin/sh\n", at: "NCCL_DEBUG=WARN\n"})
	s := still{r, map[string]bool{}}
	snap, err := Gather(t.Context(), s, "")
	if err != nil {
		t.Fatal(err)
	}
	snap.ReadNCCL(t.Context(), s)
	if err := snap.ReadFiles(t.Context(), s, "/etc"); err != nil || s.looked[at] || snap.NCCLElse != nil {
		t.Errorf("%v, %v, %v", err, s.looked[at], snap.NCCLElse)
	}
}

// hanging is a host of whose homes some do not answer.
type hanging struct {
	tree
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
	return h.tree.Stat(ctx, p)
}

// TestAHomeThatDoesNotAnswerIsLeftBehind: nothing waits longer than homesPatience, the other homes are
// known, and however often it is asked for, one thread hangs for each.
func TestAHomeThatDoesNotAnswerIsLeftBehind(t *testing.T) {
	conf := func(user string) string { return "/home/" + user + "/.nccl.conf" }
	files := map[string]string{"/etc/passwd": "", conf("cid"): "A=1\n", conf("ann"): "A=1\n"}
	for _, user := range []string{"ann", "bob", "cid", "dan"} {
		files["/etc/passwd"] += user + ":x:1000:1000::/home/" + user + ":/bin/sh\n"
	}
	on := etc(t, files)
	synctest.Test(t, func(t *testing.T) { // a bubble whose clock jumps
		r := &hanging{tree: on, asked: map[string]int{}, silent: map[string]chan struct{}{conf("ann"): make(chan struct{}), conf("bob"): make(chan struct{})}}
		homes := new(Homes)
		unknown := []NCCLPlace{{Path: conf("ann"), Unknown: true}, {Path: conf("bob"), Unknown: true}, {Path: conf("cid")}}
		for range 3 {
			at := time.Now()
			if got := homes.NCCLElse(t.Context(), r); !reflect.DeepEqual(got, unknown) || time.Since(at) != homesPatience {
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
		if got := homes.NCCLElse(t.Context(), r); !reflect.DeepEqual(got, []NCCLPlace{{Path: conf("ann")}, {Path: conf("cid")}}) || time.Since(at) != 0 {
			t.Errorf("once they answer, after %s: %+v", time.Since(at), got)
		}
	})
}
