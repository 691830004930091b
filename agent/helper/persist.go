//go:build linux

package helper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/checkpoint"
	"github.com/fabricform/fabricform/resource"
)

// txPersist runs the persist stage.
func (s *server) txPersist(ctx context.Context, p calls.TxPersist) (calls.TxPersisted, error) {
	persist := s.store.Persist
	if p.Partial {
		persist = s.store.PersistNothing
	}
	t, err := persist(p.ID, p.Token)
	if err != nil {
		return calls.TxPersisted{}, err
	}
	done, err := s.forward(ctx, t)
	out := calls.TxPersisted{TxInfo: info(t, t.Lease), Done: done}
	if err != nil && !errors.As(err, &out.Failed) {
		out.Failed = &agent.Error{Message: err.Error()}
	}
	return out, nil
}

// forward runs all steps of the persist stage, including those that already ran.
func (s *server) forward(ctx context.Context, t *checkpoint.Transaction) ([]calls.ActResult, error) {
	if t.Partial {
		return nil, nil
	}
	snap, err := s.store.ReadBackup(t)
	if err != nil || snap == nil {
		return nil, err
	}
	var steps []calls.TxStep
	if err := json.Unmarshal(snap.Forward, &steps); err != nil {
		return nil, fmt.Errorf("read the steps of the persist stage: %w", err)
	}
	ctx = resource.WithChanged(ctx, snap.Changed())
	var done []calls.ActResult
	for _, step := range steps {
		r, err := s.forwardStep(ctx, step, calls.TxRef{ID: t.ID, Token: t.Token})
		if err != nil {
			return done, err
		}
		done = append(done, r)
	}
	return done, nil
}

func (s *server) forwardStep(ctx context.Context, step calls.TxStep, tx calls.TxRef) (calls.ActResult, error) {
	switch {
	case step.Act != nil:
		a := *step.Act
		// The runtime stage or a reset has changed the host since the plan was made, and some files may already
		// be written.
		a.Tx, a.Disturbed = tx, true
		return s.act(ctx, a)
	case step.Undo != nil:
		u := *step.Undo
		u.Tx = tx
		return s.undo(ctx, u)
	}
	return calls.ActResult{}, errors.New("a step of the persist stage is empty")
}

// txFinishInterrupted finishes a transaction that a reset interrupted: a revert continues, and a prepared
// transaction is rolled forward. It also reverts one whose lease has expired.
func (s *server) txFinishInterrupted(ctx context.Context, _ struct{}) (calls.TxFinished, error) {
	if reverted, err := s.revertExpired(ctx); err != nil || reverted != nil {
		return calls.TxFinished{Ended: reverted}, err
	}
	before, _, err := s.store.Pending()
	if err != nil || before == nil {
		return calls.TxFinished{}, err
	}
	open, err := s.store.FinishInterrupted(func(t *checkpoint.Transaction) (*checkpoint.Backup, error) {
		if _, err := s.forward(ctx, t); err != nil {
			// Drop the error's flags: Stale would mean the plan that is being made, which is not stale.
			return nil, &agent.Error{Message: fmt.Sprintf("finish the transaction that a reset interrupted: %v; fix the cause, or run "+
				"`fabricform rollback`", err)}
		}
		s.keepApplied(t)
		return s.stateNow(ctx, t), nil
	})
	if err != nil {
		return calls.TxFinished{}, err
	}
	if open != nil && open.State == checkpoint.Reverting {
		if _, err := s.store.Revert(ctx, open.ID, checkpoint.Revert, open.Why, s.restore); err != nil {
			return calls.TxFinished{}, fmt.Errorf("finish an interrupted revert: %w", err)
		}
	}
	after, err := s.store.Read(before.ID)
	if err != nil || after.State.Open() {
		return calls.TxFinished{}, err
	}
	i := info(after, 0)
	return calls.TxFinished{Ended: &i}, nil
}
