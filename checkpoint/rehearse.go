//go:build linux

package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/fabricform/fabricform/host/clock"
	"github.com/fabricform/fabricform/host/file"
	"github.com/fabricform/fabricform/host/process"
	"github.com/fabricform/fabricform/retry"
)

// Fired is a line of defence that fired in the rehearsal.
type Fired struct {
	Line string        `json:"line"` // "guardian" or "systemd"
	Late time.Duration `json:"late_ns"`
}

// shot is the proof of a rehearsed guardian: that it ran, when, and outside the session.
type shot struct {
	Token   string        `json:"token"`
	Uptime  time.Duration `json:"uptime_ns"`
	Session int           `json:"session"`
}

// rehearsalPatience is how late a line of defence may fire in the rehearsal. systemd usually starts a unit within
// 100 ms; an emulated machine that has just booted was seen to need more than 5 s.
const rehearsalPatience = 20 * time.Second

// Rehearse arms every line of defence with a short deadline and waits until each has fired. It uses the same
// program, mechanism, clock and directory as a real transaction. It returns an error if one does not fire;
// such a host must not be changed.
func (s *Store) Rehearse(ctx context.Context, helper string, after time.Duration) ([]Fired, error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, fmt.Errorf("rehearse: %w", err)
	}
	all := lines()
	out, errs := make([]Fired, len(all)), make([]error, len(all))
	var rehearsals sync.WaitGroup
	for i, l := range all {
		rehearsals.Go(func() {
			late, err := s.rehearse(ctx, l, helper, after)
			if err != nil {
				errs[i] = fmt.Errorf("the %s did not fire in the rehearsal: %w", l.title, err)
			}
			out[i] = Fired{l.name, late}
		})
	}
	rehearsals.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return out, nil
}

func (s *Store) rehearse(ctx context.Context, l line, helper string, after time.Duration) (late time.Duration, err error) {
	now, err := s.clock()
	if err != nil {
		return 0, err
	}
	id, token := random(4), random(16)
	deadline := now.Uptime + after
	proof := filepath.Join(s.dir, "rehearsal-"+id)
	defer func() {
		if e := os.Remove(proof); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}()
	argv := []string{helper, "guard", "rehearse", s.dir, proof, token, strconv.FormatInt(int64(deadline), 10)}
	if err := l.start(ctx, unit("rehearsal-"+id), after, argv); err != nil {
		return 0, err
	}
	for {
		var got shot
		raw, err := file.Read(proof)
		if err == nil {
			err = json.Unmarshal(raw, &got)
		}
		switch {
		case err == nil && got.Token != token:
			return 0, errors.New("the proof was written by something else")
		case err == nil && got.Uptime < deadline:
			return 0, fmt.Errorf("fired %s too early", deadline-got.Uptime)
		case err == nil && got.Session == process.Session():
			return 0, errors.New("the program runs in this session and would end with it")
		case err == nil:
			return got.Uptime - deadline, nil
		}
		if now, e := s.clock(); e != nil || now.Uptime > deadline+rehearsalPatience {
			return 0, errors.Join(errors.New("no proof arrived"), e, err)
		}
		if err := retry.Pause(ctx, 10*time.Millisecond); err != nil {
			return 0, err
		}
	}
}

// fire is the guardian of a rehearsal. Like a real one, it waits for the deadline and takes the lock. Then it writes its
// proof.
func fire(ctx context.Context, dir, proof, token, deadline string) error {
	at, err := strconv.ParseInt(deadline, 10, 64)
	if err != nil {
		return fmt.Errorf("rehearse: %w", err)
	}
	if filepath.Dir(proof) != dir {
		return errors.New("rehearse: the proof is not in the store's directory")
	}
	if err := clock.SleepUntil(ctx, time.Duration(at)); err != nil {
		return err
	}
	return NewStore(dir, Now).withLock(func(now Moment) error {
		raw, err := json.Marshal(shot{token, now.Uptime, process.Session()})
		if err != nil {
			return err
		}
		return file.Replace(proof, raw, 0o600)
	})
}
