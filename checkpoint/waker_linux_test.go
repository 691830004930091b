package checkpoint

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// value is a restorer of one value: "was" is right.
type value struct {
	resource.Restorer
	name string
	now  *string
}

func (v value) Name() string { return v.name }

func (v value) Restore(context.Context, host.Host, json.RawMessage) (left []string, err error) {
	*v.now = "was"
	return nil, nil
}

func (v value) Again(context.Context, host.Reader, json.RawMessage) (json.RawMessage, error) {
	return json.RawMessage(`{}`), nil
}

func (v value) Items(json.RawMessage) ([]resource.Item, error) { return nil, nil }

func (v value) Merge(part, _ json.RawMessage, _ map[string]bool) (json.RawMessage, []string, error) {
	return part, nil, nil
}

// manager stands for files whose removal makes a network manager change a device.
type manager struct {
	value
	device *string
}

func (m manager) Wakes() {}

func (m manager) Restore(ctx context.Context, h host.Host, part json.RawMessage) ([]string, error) {
	*m.device = "changed by a network manager"
	return m.value.Restore(ctx, h, part)
}

// TestWhatAWakerDisturbsIsRestoredOnceMore: a network manager acts on files that are restored after the devices.
func TestWhatAWakerDisturbsIsRestoredOnceMore(t *testing.T) {
	device, file := "new", "new"
	of := value{name: "netif", now: &device}
	kinds := resource.Kinds{{Name: "nic", Restorer: of}, {Name: "persist", Restorer: manager{value{name: "persist", now: &file}, &device}}}
	b := &Backup{Version: backupVersion, Parts: []BackupPart{{"netif", json.RawMessage(`{}`)}, {"persist", json.RawMessage(`{}`)}}}
	left, err := b.Restore(t.Context(), nil, kinds)
	if left != nil || err != nil || device != "was" || file != "was" {
		t.Errorf("the device is %q and the file %q: %v, %v", device, file, left, err)
	}
}
