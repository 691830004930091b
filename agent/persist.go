package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/fabricform/fabricform/checkpoint"
)

// TxStep is one action of the persist stage, of which one is not nil. The host keeps all of them
// before its first change, so that it can end the stage without its client.
type TxStep struct {
	Act  *ActParams  `json:"act,omitempty"`
	Undo *UndoParams `json:"undo,omitempty"`
}

// TxPersist asks for the persist stage. Partial: the runtime stage stopped half-way and is kept as it
// is; nothing is written.
type TxPersist struct {
	TxRef
	Partial bool `json:"partial,omitempty"`
}

// TxPersisted is how far the persist stage came: the answers of the steps that were done, in their
// order, and why the next one failed.
type TxPersisted struct {
	TxInfo
	Done   []ActResult `json:"done"`
	Failed *Error      `json:"failed,omitempty"`
}

// txPersist writes what lasts.
func (s *server) txPersist(ctx context.Context, p TxPersist) (TxPersisted, error) {
	persist := s.store.Persist
	if p.Partial {
		persist = s.store.PersistNothing
	}
	t, err := persist(p.ID, p.Token)
	if err != nil {
		return TxPersisted{}, err
	}
	done, err := s.forward(ctx, t)
	out := TxPersisted{TxInfo: info(t, t.Lease), Done: done}
	if err != nil && !errors.As(err, &out.Failed) {
		out.Failed = &Error{Message: err.Error()}
	}
	return out, nil
}

// forward does the steps of a transaction that is persisting, those included that were done before.
func (s *server) forward(ctx context.Context, t *checkpoint.Transaction) ([]ActResult, error) {
	if t.Partial {
		return nil, nil
	}
	snap, err := s.store.Snapshot(t)
	if err != nil || snap == nil {
		return nil, err
	}
	var steps []TxStep
	if err := json.Unmarshal(snap.Forward, &steps); err != nil {
		return nil, fmt.Errorf("read what the persist stage does: %w", err)
	}
	var done []ActResult
	for _, step := range steps {
		r, err := s.forwardStep(ctx, step, TxRef{t.ID, t.Token})
		if err != nil {
			return done, err
		}
		done = append(done, r)
	}
	return done, nil
}

func (s *server) forwardStep(ctx context.Context, step TxStep, tx TxRef) (ActResult, error) {
	switch {
	case step.Act != nil:
		a := *step.Act
		// What runs has changed since the plan was made, by the runtime stage or by a reset, and files
		// may be there already.
		a.Tx, a.Settling = tx, true
		return s.act(ctx, a)
	case step.Undo != nil:
		u := *step.Undo
		u.Tx = tx
		return s.undo(ctx, u)
	}
	return ActResult{}, errors.New("a step of the persist stage is empty")
}

// TxSettled is what the first contact after a reset ended.
type TxSettled struct {
	Ended *TxInfo `json:"ended,omitempty"`
}

// txSettle ends what a reset left: a revert goes on, and what was proven is written.
func (s *server) txSettle(ctx context.Context, _ struct{}) (TxSettled, error) {
	before, _, err := s.store.Pending()
	if err != nil || before == nil {
		return TxSettled{}, err
	}
	open, err := s.store.Settle(func(t *checkpoint.Transaction) error {
		if _, err := s.forward(ctx, t); err != nil {
			// Of what kind it is says nothing of the plan that is about to be made: it is not stale.
			return &Error{Message: fmt.Sprintf("finish what was proven before the reset: %v; put it right, or `fabricform rollback`", err)}
		}
		return nil
	})
	if err != nil {
		return TxSettled{}, err
	}
	if open != nil && open.State == checkpoint.Reverting {
		if _, err := s.store.Revert(ctx, open.ID, checkpoint.Revert, open.Why, s.restore); err != nil {
			return TxSettled{}, fmt.Errorf("finish a revert that was cut short: %w", err)
		}
	}
	after, err := s.store.Read(before.ID)
	if err != nil || after.State.Open() {
		return TxSettled{}, err
	}
	i := info(after, 0)
	return TxSettled{Ended: &i}, nil
}
