package apply

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/parallel"
	"github.com/fabricform/fabricform/resource"
)

// LocalBundle is a local file that is sent to hosts.
type LocalBundle struct {
	calls.Bundle
	From io.ReaderAt
	Seal calls.Seal // of the content that has the SHA-256
	// Relay is the host that gets the bundle first and serves it to others; "" to send it from here.
	Relay string
}

// ReadBundle reads a file once, for its SHA-256 and its seal.
func ReadBundle(name string, from io.ReaderAt) (LocalBundle, error) {
	sum := sha256.New()
	seal, size, err := calls.MakeSeal(io.TeeReader(io.NewSectionReader(from, 0, math.MaxInt64), sum))
	return LocalBundle{Bundle: calls.Bundle{Name: name, SHA256: hex.EncodeToString(sum.Sum(nil)), Size: size}, From: from, Seal: seal}, err
}

// sendersAtOnce limits the number of parallel uploads: the operator's own link is the bottleneck, and a host
// that has its bundle can start to install.
const sendersAtOnce = 8

// maxBreaks is how often an upload may break without progress before it fails.
const maxBreaks = 5

// Sent is the progress of the uploads.
type Sent struct {
	Bytes, Size int64         // for all hosts together
	Rate        float64       // bytes per second since the start
	Remaining   time.Duration // at that rate
	Hosts       int
}

// Send sends each host its bundle: by SFTP over the open connections, several in parallel, or from its relay.
// If a connection breaks, Send reconnects and resumes the upload. The hosts check the content. Send calls
// onProgress about once a second, and note when a host cannot use its declared relay. Both may be nil.
func (f *Fleet) Send(ctx context.Context, bundles map[string]LocalBundle, onProgress func(Sent), note func(host, what string)) error {
	if note == nil {
		note = func(string, string) {}
	}
	p := &progress{began: time.Now(), at: map[string]int64{}, from: map[string]int64{}, onProgress: onProgress}
	direct, relays := map[string]LocalBundle{}, map[string]*relay{}
	for host, b := range bundles {
		if b.Relay == "" {
			direct[host] = b
			continue
		}
		if relays[b.Relay] == nil {
			_, own := bundles[b.Relay]
			relays[b.Relay] = &relay{name: b.Relay, bundle: b, own: own, note: note}
		}
		relays[b.Relay].hosts = append(relays[b.Relay].hosts, host)
	}
	for _, r := range relays {
		if !r.own && f.client(r.name) != nil {
			direct[r.name] = r.bundle
			p.size += r.bundle.Size
		}
	}
	for _, b := range bundles {
		p.size += b.Size
	}
	names := slices.Sorted(maps.Keys(relays))
	defer parallel.Each(sendersAtOnce, names, func(_ int, name string) { relays[name].end(ctx, f) }) // end notes failures
	err := parallel.Do(sendersAtOnce, slices.Sorted(maps.Keys(direct)), func(_ int, host string) error {
		err := f.send(ctx, host, direct[host], p)
		if _, asked := bundles[host]; err != nil && !asked {
			note(host, fmt.Sprintf("cannot be used as a relay: %v", err)) // its hosts get a direct upload
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	// hosts that could not fetch get a direct upload
	parallel.Each(sendersAtOnce, names, func(_ int, name string) { relays[name].feed(ctx, f, p) })
	var left []string
	for _, r := range relays {
		left = append(left, r.direct...)
	}
	return parallel.Do(sendersAtOnce, left, func(_ int, host string) error { return f.send(ctx, host, bundles[host], p) })
}

func (f *Fleet) send(ctx context.Context, host string, b LocalBundle, p *progress) error {
	if err := f.sendTo(ctx, host, b, p); err != nil {
		return fmt.Errorf("host %s: send %s: %w", host, b.Name, err)
	}
	return nil
}

func (f *Fleet) sendTo(ctx context.Context, host string, b LocalBundle, p *progress) error {
	breaks, wrong, before := 0, 0, int64(-1)
	for {
		to, err := calls.PrepareUpload.Call(ctx, f, host, b.Bundle)
		var refused *agent.Error
		switch {
		case errors.As(err, &refused), ctx.Err() != nil:
			return errors.Join(err, ctx.Err())
		case err == nil && to.Whole:
			p.set(host, b.Size)
			return nil
		case err == nil:
			if to.Have > before {
				breaks, before = 0, to.Have
			}
			p.set(host, to.Have)
			if err = f.upload(ctx, host, b, to, p); err == nil {
				to, err = calls.CheckBundle.Call(ctx, f, host, calls.UploadedBundle{Bundle: b.Bundle, Seal: b.Seal})
			}
			if err == nil && to.Whole {
				return nil
			}
			if err == nil { // the content differs: the part that was there is from another file
				if wrong++; wrong > 1 {
					return errors.New("the content is wrong after two uploads: check whether the file changes during the upload")
				}
				continue
			}
		}
		if breaks++; breaks > maxBreaks || ctx.Err() != nil || errors.Is(err, errStandstill) || isLate(err) {
			return errors.Join(err, ctx.Err())
		}
		if back := f.comeBack(ctx, host, time.Minute); back != nil {
			return errors.Join(err, back)
		}
	}
}

// upload uses the connection of the host's helper.
func (f *Fleet) upload(ctx context.Context, host string, b LocalBundle, to calls.BundleUpload, p *progress) error {
	c := f.client(host)
	if c == nil {
		return errors.New("the host is not connected")
	}
	carrier, ok := c.Stream().(interface {
		Upload(ctx context.Context, to string, from io.ReaderAt, offset, size int64, progress func(int64)) error
	})
	if !ok {
		return errors.New("the connection does not support file uploads")
	}
	// If the connection falls silent, the helper's client ends first.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-c.Dead():
			cancel(nil)
		case <-ctx.Done():
		}
	}()
	idle := time.AfterFunc(resource.StuckAfter, func() { cancel(errStandstill) })
	defer idle.Stop()
	err := carrier.Upload(ctx, to.Path, b.From, to.Have, b.Size, func(sent int64) {
		idle.Reset(resource.StuckAfter)
		p.set(host, sent)
	})
	if err != nil && errors.Is(context.Cause(ctx), errStandstill) {
		return errStandstill
	}
	return err
}

// errStandstill ends an upload to a host that answers and takes no bytes, for example because its disk hangs.
var errStandstill = fmt.Errorf("the upload is stuck: the host has taken no bytes for %s", resource.StuckAfter)

// progress adds up the progress of all hosts.
type progress struct {
	mu         sync.Mutex
	began      time.Time
	last       time.Time
	size       int64
	at         map[string]int64 // by host
	from       map[string]int64 // what was already there, which does not count for the rate
	onProgress func(Sent)
}

// set records how many bytes a host has. The first value was there before the upload and does not count for
// the rate.
func (p *progress) set(host string, at int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at[host] = at
	if _, known := p.from[host]; !known {
		p.from[host] = at
	}
	if p.onProgress == nil || time.Since(p.last) < time.Second {
		return
	}
	p.last = time.Now()
	s := Sent{Size: p.size, Hosts: len(p.at)}
	var began int64
	for h, n := range p.at {
		s.Bytes += n
		began += p.from[h]
	}
	if spent := time.Since(p.began).Seconds(); spent > 0 && s.Bytes > began {
		s.Rate = float64(s.Bytes-began) / spent
		s.Remaining = time.Duration(float64(s.Size-s.Bytes) / s.Rate * float64(time.Second))
	}
	p.onProgress(s)
}
