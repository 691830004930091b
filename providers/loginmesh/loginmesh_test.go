package loginmesh

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/resource/kindtest"
)

var train = Login{Fabric: "lab", Mesh: "train", User: "ann"}

const someKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGPKSUTyz1HwHReFVvD5obVsALAgJRNarH4TRpNePnAS"

func someSpec() Spec {
	b := peer{name: "b", best: netip.MustParseAddr("10.0.0.2"), addrs: []netip.Addr{netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("fd00::2")}, port: 2222, key: hostKey("b"),
		binds: map[netip.Addr]netip.Addr{netip.MustParseAddr("fd00::2"): netip.MustParseAddr("fd00::1")}}
	return Spec{Login: train, Members: []string{"b", "c"}, Snippet: train.head() + b.snippet(train), Known: train.head() + b.known(train),
		Entries: []Entry{{Host: "b", Key: someKey, From: []netip.Addr{netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("fd00::2")}}}}
}

func TestConformance(t *testing.T) {
	theirs := []byte("ssh-rsa AAAA them@desk\r\n# a comment")
	for name, folder := range map[string]map[string]host.LoginFile{"an empty home": nil, "a home with keys": {host.AuthorizedKeys: {Perm: 0o640, Text: theirs}}} {
		t.Run(name, func(t *testing.T) {
			f := newFake("a")
			f.record.Note(keys{}.Diff(KeySpec{train, "a"}, &KeyStatus{}))
			f.homes["ann"].files = maps.Clone(folder)
			same := func() bool {
				now := f.homes["ann"].files
				return (now == nil) == (folder == nil) && maps.EqualFunc(now, folder, func(a, b host.LoginFile) bool { return string(a.Text) == string(b.Text) && a.Perm == b.Perm }) && len(f.files) == 1
			}
			kindtest.Conform(t, kindtest.Case{Kinds: Kinds(), Kind: KeyKind, Host: f, Spec: KeySpec{train, "a"}, Equal: same})
			if folder == nil { // the first kind makes the folder
				f.homes["ann"].files, folder = map[string]host.LoginFile{}, map[string]host.LoginFile{}
			}
			kindtest.Conform(t, kindtest.Case{Kinds: Kinds(), Kind: Kind, Host: f, Spec: someSpec(), Equal: same})
		})
	}
}

// TestForeignLinesStayByteForByte: whatever the ends of the lines are, and in whatever order ours come and go.
func TestForeignLinesStayByteForByte(t *testing.T) {
	line := someSpec().Entries[0].line(train)
	other := strings.Replace(line, "train:b", "train:c", 1)
	for _, theirs := range []string{"", "\n", "one", "one\n", "one\r\ntwo\r\n", "one\n\n\n", "\n\none", "# fabricform:lab:train:b\n", "x fabricform:lab\n", "\x00\xff\n"} {
		with := setEntry(setEntry(theirs, "train:b", line), "train:c", other)
		if len(entriesOf(with)) != 2 || setEntry(with, "train:b", line) != with {
			t.Errorf("%q became %q", theirs, with)
		}
		if whole := theirs == "" || strings.HasSuffix(theirs, "\n"); whole != strings.HasSuffix(with, "\n") {
			t.Errorf("the last line of %q ends otherwise in %q", theirs, with)
		}
		if later := with + "ssh-rsa AAAA later\n"; entriesOf(later)["train:b"] != line || entriesOf(later)["train:c"] != other || setEntry(setEntry(later, "train:c", ""), "train:b", "") != theirs+"ssh-rsa AAAA later\n" {
			t.Errorf("what was appended to %q became part of %q", with, later)
		}
		for _, order := range [][]string{{"train:b", "train:c"}, {"train:c", "train:b"}} {
			back := with
			for _, name := range order {
				back = setEntry(back, name, "")
			}
			if back != theirs {
				t.Errorf("%q came back as %q", theirs, back)
			}
		}
		edited := strings.Replace(with, "restrict,", "", 1)
		if got := setEntry(edited, "train:b", line); len(entriesOf(got)) != 2 || !strings.Contains(got, line) || shownEntry(entriesOf(edited)["train:b"]) != "edited by hand" {
			t.Errorf("an edited line: %q", got)
		}
	}
	if shown := shownEntry(line); !strings.HasPrefix(shown, "SHA256:") || !strings.HasSuffix(shown, " from 10.0.0.2,fd00::2") {
		t.Error(shown)
	}
}

// TestAMeshIsMadeExtendedAndTakenAway: entries come after the keys; a host that leaves takes its entries with it.
func TestAMeshIsMadeExtendedAndTakenAway(t *testing.T) {
	c := newCluster(t, "a", "b", "c", "d")
	const theirs = "ssh-rsa AAAA them@desk"
	c.hosts["b"].homes["ann"].files = map[string]host.LoginFile{host.AuthorizedKeys: {Perm: 0o644, Text: []byte(theirs)}, "id_rsa": {Perm: 0o600}}
	c.f.LoginMeshes[0].Hosts = c.f.LoginMeshes[0].Hosts[:3]

	for name, d := range c.diff(KeyKind) {
		if last := d.Changes[len(d.Changes)-1]; last.Attribute != "key" || last.To != "made in this apply" || last.Stage != resource.StageKeys {
			t.Errorf("%s: %v", name, d.Changes)
		}
	}
	before := c.diff(Kind)
	notes := strings.Join(before["a"].Notes, "\n")
	if !strings.Contains(notes, "whoever is ann on one of these hosts can log in to all of them") || !strings.Contains(notes, "keys made in this apply: a, b, c") || !strings.Contains(notes, "a saved plan covers the keys only") {
		t.Error(notes)
	}
	for _, change := range before["a"].Changes {
		if strings.HasPrefix(change.Attribute, "entry") {
			t.Errorf("%v before there is a key", change)
		}
	}
	expect := func(when string, want map[string]string) {
		t.Helper()
		c.apply()
		for name, d := range c.diff(Kind) {
			if len(d.Changes)+len(d.Notes) > 0 {
				t.Errorf("%s: %s is not as declared: %v %q", when, name, d.Changes, d.Notes)
			}
		}
		for name := range c.hosts {
			if got := c.entered(name); got != want[name] {
				t.Errorf("%s: at %s are %q, not %q", when, name, got, want[name])
			}
		}
	}
	expect("made", map[string]string{"a": "b c", "b": "a c", "c": "a b"})
	c.f.LoginMeshes[0].Hosts = append(c.f.LoginMeshes[0].Hosts, "d")
	if changes := c.diff(KeyKind); len(changes["a"].Changes) != 0 || len(changes["d"].Changes) != 2 {
		t.Errorf("extended: %v", changes)
	}
	expect("extended", map[string]string{"a": "b c d", "b": "a c d", "c": "a b d", "d": "a b c"})
	snippet, known := train.files()
	if text := c.hosts["a"].files[snippet].Text; !strings.Contains(text, "Match localuser ann user ann originalhost d\n    HostName 10.9.0.4\n") || !strings.Contains(text, " host 10.0.0.4,10.9.0.4\n    IdentityFile ~/.ssh/fabricform_train\n") || strings.Contains(text, "10.0.0.1,") {
		t.Error(text)
	}
	if text := c.hosts["a"].files[known].Text; !strings.Contains(text, "10.0.0.4,10.9.0.4 "+hostKey("d")+"\n") {
		t.Error(text)
	}

	c.away["b"] = true // it keeps its entries at the others, and they theirs
	for name, d := range c.diff(Kind) {
		if len(d.Changes) > 0 {
			t.Errorf("without b, %s: %v", name, d.Changes)
		}
	}
	c.apply()
	if got := c.entered("a"); got != "b c d" {
		t.Errorf("b is away, and at a are %q", got)
	}
	c.away["b"] = false
	c.f.LoginMeshes[0].Hosts = []fabric.HostRef{"a", "b", "d"}
	expect("a host removed", map[string]string{"a": "b d", "b": "a d", "d": "a b"})
	if left := c.hosts["c"]; left.homes["ann"].files != nil || len(left.files) != 1 || len(c.records["c"].Atoms) != 0 {
		t.Errorf("left on c: %v %v %v", left.homes["ann"].files, left.files, c.records["c"].Atoms)
	}
	c.f.LoginMeshes = nil
	expect("taken away", nil)
	for name, h := range c.hosts {
		if name != "b" && h.homes["ann"].files != nil || len(h.files) != 1 {
			t.Errorf("left on %s: %v %v", name, h.homes["ann"].files, h.files)
		}
	}
	if f := c.hosts["b"].homes["ann"].files; string(f[host.AuthorizedKeys].Text) != theirs || f[host.AuthorizedKeys].Perm != 0o644 || len(f) != 2 {
		t.Errorf("their files are %v", f)
	}
}

// TestAHostThatIsAwayIsEnteredByTheNextApply, and named.
func TestAHostThatIsAwayIsEnteredByTheNextApply(t *testing.T) {
	c := newCluster(t, "a", "b", "c")
	c.away["c"] = true
	if notes := strings.Join(c.diff(Kind)["a"].Notes, "\n"); !strings.Contains(notes, "not reached, and entered by the next apply: c") {
		t.Error(notes)
	}
	c.apply()
	if got := c.entered("a") + "|" + c.entered("b"); got != "b|a" {
		t.Error(got)
	}
	c.away["c"] = false
	c.apply()
	if got := c.entered("a") + "|" + c.entered("b") + "|" + c.entered("c"); got != "b c|a c|a b" {
		t.Error(got)
	}
}

// TestHostsThatShareAHomeHaveOneKey: one host makes it, and enters it once.
func TestHostsThatShareAHomeHaveOneKey(t *testing.T) {
	t.Run("a undoes first", func(t *testing.T) { shareAHome(t, false) })
	t.Run("b undoes first", func(t *testing.T) { shareAHome(t, true) })
}

func shareAHome(t *testing.T, backwards bool) {
	c := newCluster(t, "a", "b", "c")
	c.backwards = backwards
	c.hosts["b"].homes["ann"] = c.hosts["a"].homes["ann"]
	// Before there is a key, a host only says that it shares a home. This keeps no host from making a key.
	d := c.diff(KeyKind)
	if len(d) != 3 || len(d["a"].Changes) == 0 || len(d["b"].Changes) == 0 || len(d["c"].Changes) == 0 {
		t.Errorf("%v", d)
	}
	keys, _ := Kinds().Lookup(KeyKind)
	private := ""
	_, wanted := c.wanted()
	for _, name := range []string{"b", "a"} { // the second one finds the key of the first
		err := keys.Apply(t.Context(), c.hosts[name], wanted[name][0].Spec, d[name].Changes)
		if errors.Is(err, resource.ErrMadeElsewhere) != (name == "a") || name == "b" && err != nil {
			t.Fatal(err)
		}
		if name == "b" {
			c.records[name].Note(d[name].Changes)
		}
		now := string(c.hosts["a"].homes["ann"].files["fabricform_train"].Text)
		if now == "" || private != "" && now != private {
			t.Error("the key is missing, or it is another one")
		}
		private = now
	}
	if notes := strings.Join(c.diff(Kind)["b"].Notes, "\n"); !strings.Contains(notes, "a, b share the home of ann: they have one key, which a enters") {
		t.Error(notes)
	}
	c.apply()
	if string(c.hosts["a"].homes["ann"].files["fabricform_train"].Text) != private {
		t.Error("the key was made anew")
	}
	if got := c.entered("a") + "|" + c.entered("c"); got != "a c|a" {
		t.Error(got)
	}
	line := entriesOf(string(c.hosts["c"].homes["ann"].files[host.AuthorizedKeys].Text))["train:a"]
	if !strings.HasPrefix(line, `from="10.0.0.1,10.9.0.1,10.0.0.2,10.9.0.2",restrict,pty ssh-ed25519 `) {
		t.Error(line)
	}
	for a := range c.records["b"].Atoms {
		if strings.Contains(string(a), "entry") {
			t.Errorf("b also made %s", a)
		}
	}
	c.f.LoginMeshes = nil
	c.apply()
	// b made the folder, and leaves it while it has the entries that a made: if b undoes first, an empty folder stays.
	if left := c.hosts["a"].homes["ann"].files; len(left) > 0 || (left != nil) != backwards {
		t.Errorf("left: %#v", left)
	}
}

// TestASharedKeyStaysWithTheHostThatMadeIt: whatever the other one planned, its rollback leaves the key.
func TestASharedKeyStaysWithTheHostThatMadeIt(t *testing.T) {
	c := newCluster(t, "a", "b")
	c.hosts["b"].homes["ann"] = c.hosts["a"].homes["ann"]
	key := func() bool { return len(c.hosts["a"].homes["ann"].files["fabricform_train"].Text) > 0 }
	atoms := []resource.Atom{atomOf(KeyKind, train, "ssh_folder"), atomOf(KeyKind, train, "key")}
	kind, _ := Kinds().Lookup(KeyKind)
	backups := map[string]json.RawMessage{}
	for name, h := range c.hosts {
		saved, err := kind.Restorer.Save(t.Context(), h, atoms)
		if err != nil {
			t.Fatal(err)
		}
		backups[name] = saved
	}
	c.records["b"].Note(c.diff(KeyKind)["b"].Changes)
	if err := makeKey(c.hosts["b"], host.Account{Name: "ann"}, "train", ""); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		now, err := kind.Restorer.Again(t.Context(), c.hosts[name], backups[name])
		items, err2 := kind.Restorer.Items(now)
		if own := name == "b"; errors.Join(err, err2) != nil || (len(items) == 2) != own {
			t.Errorf("%s: %v %v %v", name, items, err, err2)
		}
		left, err := kind.Restorer.Restore(t.Context(), c.hosts[name], backups[name])
		if err != nil || len(left) > 0 || key() != (name == "a") {
			t.Errorf("after the rollback of %s: the key is there: %v; %v %v", name, key(), left, err)
		}
	}
}

// TestTheHostThatMadeTheKeyLeavesTheMesh: those who share its home keep the key and the entries, which go with the last of them.
func TestTheHostThatMadeTheKeyLeavesTheMesh(t *testing.T) {
	c := newCluster(t, "a", "b", "c")
	c.hosts["b"].homes["ann"] = c.hosts["a"].homes["ann"]
	c.apply()
	key := func() string { return string(c.hosts["b"].homes["ann"].files["fabricform_train"].Text) }
	was := key()
	c.f.LoginMeshes[0].Hosts = []fabric.HostRef{"b", "c"}
	c.apply()
	if key() != was || was == "" {
		t.Error("the key was removed or made anew")
	}
	if got := c.entered("b") + "|" + c.entered("c"); got != "c|b" || len(c.hosts["a"].files) != 1 || len(c.hosts["b"].files) != 3 {
		t.Errorf("%s, %d files of a and %d of b", got, len(c.hosts["a"].files), len(c.hosts["b"].files))
	}
	const note = "login_mesh train: a is not in it, but keeps the key, the entry of c: b proves that it shares the home of ann"
	if got := c.diff(Kind)["a"].Notes; len(got) != 1 || got[0] != note {
		t.Errorf("%q", got)
	}
	if line := entriesOf(string(c.hosts["c"].homes["ann"].files[host.AuthorizedKeys].Text))["train:b"]; !strings.HasPrefix(line, `from="10.0.0.2,10.9.0.2",`) {
		t.Errorf("a can still log in: %s", line)
	}
	for _, kind := range []string{KeyKind, Kind} {
		for name, d := range c.diff(kind) {
			if len(d.Changes) > 0 {
				t.Errorf("%s: %v", name, d.Changes)
			}
		}
	}
	c.f.LoginMeshes = nil
	c.apply()
	if left := c.hosts["a"].homes["ann"].files; left != nil {
		t.Errorf("left: %v", left)
	}
}

// TestARollbackAsksForLoginsOfRoot: as apply does, for whatever makes them again, and for no other user.
func TestARollbackAsksForLoginsOfRoot(t *testing.T) {
	c := newCluster(t, "a", "b")
	c.apply()
	snaps, _ := c.wanted()
	for _, value := range [][]string{{KeyKind, "key"}, {Kind, "entry", "b"}, {Kind, "file", "/etc/ssh/x"}} {
		kind, _ := Kinds().Lookup(value[0])
		add, remove := atomOf(value[0], train, value[1:]...).Change("", "x"), atomOf(value[0], train, value[1:]...).Change("x", "")
		root := train
		root.User = "root"
		unread := atomOf(value[0], root, value[1:]...).Change("", "x")
		for uid, want := range map[int]string{0: "root-login", 1000: ""} {
			part.Of(snaps["a"])["ann"].Account.UID = uid
			if allow, _ := kind.Asks(snaps["a"], add); allow != want {
				t.Errorf("%v for user %d: %q", value, uid, allow)
			}
		}
		if allow, _ := kind.Asks(snaps["a"], remove); allow != "" {
			t.Errorf("%v is removed: %q", value, allow)
		}
		if allow, why := kind.Asks(snaps["a"], unread); allow != "root-login" || why == "" {
			t.Errorf("%v of root, who was not looked up: %q", value, allow)
		}
	}
}

// TestASharedHomeIsProven: a host that only says that it shares a home takes no key and no entry from the host whose home it is.
func TestASharedHomeIsProven(t *testing.T) {
	c := newCluster(t, "a", "b", "c")
	c.hosts["a"].homes["ann"].id = "b" // a lies
	c.hosts["b"].homes["ann"].files = map[string]host.LoginFile{}
	c.apply()
	c.apply() // once there are keys, they differ
	if got := c.entered("a") + "|" + c.entered("b") + "|" + c.entered("c"); got != "b c|a c|a b" {
		t.Error(got)
	}
	snaps, _ := c.wanted()
	a, b := part.Of(snaps["a"])["ann"], part.Of(snaps["b"])["ann"]
	if !a.holds(train, "a") || !b.holds(train, "b") {
		t.Fatal("no proof")
	}
	a.Keys, a.Proofs = b.Keys, b.Proofs // what is known of b, replayed
	for _, h := range c.f.Hosts[1:] {
		var s Spec
		rs := Joined(c.f, h, snaps)
		if err := json.Unmarshal(rs[len(rs)-1].Spec, &s); err != nil || len(rs) != 2 || len(s.Entries) != 2 {
			t.Errorf("%s: %v %v", h.Name, rs, err)
		}
		for _, e := range s.Entries {
			if e.Host == "b" && len(e.From) != 2 {
				t.Errorf("the key of b is entered for %v", e.From)
			}
		}
	}
}

// TestAHostThatOnlySaysThatItSharesAHomeKeepsNothing: every host of a mesh knows the homes and the public keys of the others.
func TestAHostThatOnlySaysThatItSharesAHomeKeepsNothing(t *testing.T) {
	c := newCluster(t, "a", "b", "c")
	c.apply()
	c.f.LoginMeshes[0].Hosts = []fabric.HostRef{"b", "c"}
	snaps, _ := c.wanted()
	a, b := part.Of(snaps["a"])["ann"], part.Of(snaps["b"])["ann"]
	if a == nil || a.Keys["train"] == "" {
		t.Fatal("the key of a was not read")
	}
	b.Home, b.Keys = a.Home, a.Keys // b lies
	if kept := Joined(c.f, c.f.Hosts[0], snaps); len(kept) > 0 {
		t.Errorf("a keeps %v", kept)
	}
}

// TestAHomeWithoutAnIDIsNotShared: whatever else two hosts have in common.
func TestAHomeWithoutAnIDIsNotShared(t *testing.T) {
	c := newCluster(t, "a", "b")
	c.hosts["b"].homes["ann"] = c.hosts["a"].homes["ann"]
	c.hosts["a"].homes["ann"].id = ""
	if err := errors.Join(c.hosts["a"].PutLoginFolder(host.Account{Name: "ann"}), makeKey(c.hosts["a"], host.Account{Name: "ann"}, "train", "")); err != nil {
		t.Fatal(err)
	}
	if notes := strings.Join(c.diff(Kind)["a"].Notes, "\n"); strings.Contains(notes, "share the home") {
		t.Error(notes)
	}
}

// TestAKeyThatOthersMayReadIsRefused: it may be known to them.
func TestAKeyThatOthersMayReadIsRefused(t *testing.T) {
	for _, perm := range []fs.FileMode{0o640, 0o604} {
		c := newCluster(t, "a", "b")
		c.apply()
		files := c.hosts["a"].homes["ann"].files
		key := files["fabricform_train"]
		key.Perm = perm
		files["fabricform_train"] = key
		kind, _ := Kinds().Lookup(KeyKind)
		snaps, wanted := c.wanted()
		if _, err := kind.Plan(snaps["a"], wanted["a"][0].Spec); err == nil || !strings.Contains(err.Error(), "fabricform_train is readable by others") {
			t.Errorf("%04o: %v", perm, err)
		}
	}
}

// TestASectionThatSomebodyChangedIsNotKept: that of a host which is away stays as it is, unless it is not ours any more.
func TestASectionThatSomebodyChangedIsNotKept(t *testing.T) {
	c := newCluster(t, "a", "b", "c")
	c.apply()
	snippet, known := train.files()
	c.away["b"] = true
	was := c.hosts["a"].files[snippet].Text
	c.apply()
	if now := c.hosts["a"].files[snippet].Text; now != was {
		t.Errorf("b is away: %s", now)
	}
	for path, add := range map[string]string{snippet: "    ProxyCommand /bin/theirs\n", known: "10.0.0.2 " + hostKey("theirs") + "\n"} {
		f := c.hosts["a"].files[path]
		at := strings.Index(f.Text, sectionMark+"c\n")
		f.Text = f.Text[:at] + add + f.Text[at:]
		c.hosts["a"].files[path] = f
	}
	c.apply()
	for _, path := range []string{snippet, known} {
		if text := c.hosts["a"].files[path].Text; strings.Contains(text, sectionMark+"b\n") || !strings.Contains(text, sectionMark+"c\n") || strings.Contains(text, "/bin/theirs") || strings.Contains(text, hostKey("theirs")) {
			t.Error(text)
		}
	}
}

// TestALongKeyFileIsNotParsed: it is the user's, and could be made to take long.
func TestALongKeyFileIsNotParsed(t *testing.T) {
	for name, change := range map[string]func(key string) string{
		"too long":        func(key string) string { return key + strings.Repeat("\n", maxKeyFile) },
		"after some text": func(key string) string { return "x\n" + key },
	} {
		c := newCluster(t, "a", "b")
		c.apply()
		f := c.hosts["a"].homes["ann"].files["fabricform_train"]
		f.Text = []byte(change(string(f.Text)))
		c.hosts["a"].homes["ann"].files["fabricform_train"] = f
		snaps, _ := c.wanted()
		if u := part.Of(snaps["a"])["ann"]; u.Keys["train"] != "" || !strings.Contains(u.Why, "is not an ed25519 key without a passphrase") {
			t.Errorf("%s: %q %q", name, u.Keys, u.Why)
		}
	}
}

// TestTheKeyOfAnotherFabricIsRefused: two fabrics with a mesh of one name and one user would fight for the key in a shared home.
func TestTheKeyOfAnotherFabricIsRefused(t *testing.T) {
	for comment, refused := range map[string]bool{"fabricform:other:train:x": true, "fabricform:lab:train:x": false, "fabricform:train": false, "ann@desk": false} {
		c := newCluster(t, "a", "b")
		c.hosts["a"].homes["ann"].files = map[string]host.LoginFile{}
		if err := makeKey(c.hosts["a"], host.Account{Name: "ann"}, "train", comment); err != nil {
			t.Fatal(err)
		}
		snaps, wanted := c.wanted()
		for _, r := range wanted["a"] {
			kind, _ := Kinds().Lookup(r.Addr.Kind)
			if _, err := kind.Plan(snaps["a"], r.Spec); refused != (err != nil) || refused && !strings.Contains(err.Error(), `of another fabric, "other", with the same name and user: give one of the two meshes another name`) {
				t.Errorf("%s: %s: %v", comment, r.Addr.Kind, err)
			}
		}
	}
	for _, text := range []string{"", "x", "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA\n-----END OPENSSH PRIVATE KEY-----\n"} {
		if got := madeFor([]byte(text)); got != "" {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// TestTheKeyIsNowhereElse: no snapshot, spec, record or backup has a part of it.
func TestTheKeyIsNowhereElse(t *testing.T) {
	c := newCluster(t, "a", "b")
	c.apply()
	private := string(c.hosts["a"].homes["ann"].files["fabricform_train"].Text)
	if !strings.Contains(private, "OPENSSH PRIVATE KEY") || c.hosts["a"].homes["ann"].files["fabricform_train"].Perm != 0o600 {
		t.Fatal("the key is missing")
	}
	snaps, wanted := c.wanted()
	backup, err := Kinds()[0].Restorer.Save(t.Context(), c.hosts["a"], slices.Collect(maps.Keys(c.records["a"].Atoms)))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal([]any{snaps, wanted, c.records, c.diff(KeyKind), c.diff(Kind), backup})
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(private) {
		if line = strings.TrimSpace(line); strings.Contains(string(raw), line) || strings.Contains(string(raw), "PRIVATE KEY") {
			t.Errorf("%q is in what leaves the host", line)
		}
	}
}

// TestALineOrFileOfOthersIsNotTaken: but what is absent is made.
func TestALineOrFileOfOthersIsNotTaken(t *testing.T) {
	f := newFake("a")
	snippet, _ := train.files()
	refusals := func() (out []string) {
		snap, err := Kinds().Gather(t.Context(), f, resource.Query{Resources: []resource.Resource{resource.New("a", Kind, "train", fabric.Pos{}, someSpec())}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := entries{}.Observe(snap, someSpec())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range (entries{}).Diff(someSpec(), got) {
			if c.Refusal != "" {
				out = append(out, c.Attribute)
			}
		}
		return out
	}
	if got := refusals(); got != nil {
		t.Error(got)
	}
	f.files[snippet] = facts.File{FileStat: host.FileStat{Mode: 0o644}, Text: "theirs"}
	f.homes["ann"].files = map[string]host.LoginFile{host.AuthorizedKeys: {Perm: 0o600, Text: []byte("ssh-rsa X fabricform:lab:train:b")}}
	if got := refusals(); !slices.Equal(got, []string{"entry b", "file " + snippet}) {
		t.Error(got)
	}
}

// TestAMeshNeedsNothingThatARebootLoses: its files, and the files that they name, are in /etc/ssh and in the user's ~/.ssh. None is in
// /run, /tmp or /dev/shm, which are empty after a boot. The host keys that it knows come from /etc/ssh.
func TestAMeshNeedsNothingThatARebootLoses(t *testing.T) {
	c := newCluster(t, "a", "b")
	c.apply()
	for name, h := range c.hosts {
		var texts []string
		for file, f := range h.files {
			texts = append(texts, file, f.Text)
		}
		for file, f := range h.homes["ann"].files {
			texts = append(texts, "~/.ssh/"+file)
			if file == host.AuthorizedKeys {
				texts = append(texts, string(f.Text))
			}
		}
		kept := 0
		for _, text := range texts {
			for word := range strings.FieldsSeq(strings.NewReplacer(`"`, " ", ",", " ", "=", " ").Replace(text)) {
				switch {
				case strings.HasPrefix(word, sshDir+"/"), strings.HasPrefix(word, "~/.ssh/"):
					kept++
				case strings.HasPrefix(word, "/"), strings.HasPrefix(word, "~"), strings.HasPrefix(word, "%"), strings.HasPrefix(word, "$"):
					t.Errorf("%s needs %s", name, word)
				}
			}
		}
		if kept < 8 { // three files of /etc/ssh, two of the user's, and what they name
			t.Errorf("%s has %d paths: %q", name, kept, texts)
		}
	}
}

// TestLoginsStartFromAnAddressThatIsEntered: of several addresses, the kernel may choose one that the entries do not have. What an earlier
// build wrote, without such addresses, is read.
func TestLoginsStartFromAnAddressThatIsEntered(t *testing.T) {
	c := newCluster(t, "a", "b")
	snaps, _ := c.wanted()
	snaps["a"].Addrs = []host.Addr{{Prefix: netip.MustParsePrefix("10.0.0.7/24")}, {Prefix: netip.PrefixFrom(snaps["a"].Management.Dialled, 24)}}
	m := newMesh(c.f, c.f.LoginMeshes[0], snaps)
	p := m.peer("a", "b")
	text := p.snippet(train)
	for _, want := range []string{" host 10.0.0.2\n    BindAddress 10.0.0.1\n", " host 10.9.0.2\n    BindAddress 10.9.0.1\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %s", want, text)
		}
	}
	p.binds = nil
	if earlier := p.snippet(train); strings.Contains(earlier, "BindAddress") || !train.wholeSnippet(earlier) || !train.wholeSnippet(text) {
		t.Errorf("%s%s", text, earlier)
	}
	// An address that a does not have, because it is translated on the way, cannot be bound to; nor is there one for a peer that is routed.
	snaps["a"].Addrs = nil
	if text := newMesh(c.f, c.f.LoginMeshes[0], snaps).peer("a", "b").snippet(train); strings.Contains(text, "BindAddress 10.0.0.1") || !strings.Contains(text, "BindAddress 10.9.0.1") {
		t.Error(text)
	}
}

// TestTheNetworkOfALogin: the management network, if both hosts are in it; otherwise one of the fabric's.
func TestTheNetworkOfALogin(t *testing.T) {
	c := newCluster(t, "a", "b")
	snaps, _ := c.wanted()
	name := func(bits int) string {
		snaps["a"].Addrs = []host.Addr{{Prefix: netip.PrefixFrom(snaps["a"].Management.Dialled, bits)}}
		m := newMesh(c.f, c.f.LoginMeshes[0], snaps)
		return m.best("a", "b").String()
	}
	if one, two := name(24), name(32); one != "10.0.0.2" || two != "10.9.0.2" {
		t.Error(one, two)
	}
	nics := c.f.Hosts[1].NICs
	c.f.Hosts[1].NICs = nil
	if routed := name(32); routed != "10.0.0.2" {
		t.Error(routed)
	}
	// We reached b over IPv6, which a does not have: a login that is routed takes b's IPv4 address.
	c.f.Hosts[1].NICs, nics[0].Addresses = nics, []netip.Prefix{netip.MustParsePrefix("10.77.0.2/31")}
	snaps["b"].Management.Dialled = netip.MustParseAddr("2001:db8::2")
	if routed := name(32); routed != "10.77.0.2" {
		t.Error(routed)
	}
}

// TestWhoMayHaveAMesh: what cannot be done safely is an error of the plan.
func TestWhoMayHaveAMesh(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(c *cluster)
		says string
	}{
		"no such user":    {func(c *cluster) { c.hosts["a"].homes = nil }, "user ann does not exist on this host"},
		"root":            {func(c *cluster) { c.hosts["a"].uid = 0 }, "-allow=root-login"},
		"root, allowed":   {func(c *cluster) { c.hosts["a"].uid, c.f.RootLogin = 0, true }, ""},
		"root, converged": {func(c *cluster) { c.hosts["a"].uid, c.f.RootLogin = 0, true; c.apply(); c.f.RootLogin = false }, ""},
		"a spoilt home":   {func(c *cluster) { c.hosts["a"].spoilt = errors.New("/home/ann is writable by others") }, "writable by others"},
		"a foreign key": {func(c *cluster) {
			c.hosts["a"].homes["ann"].files = map[string]host.LoginFile{"fabricform_train": {Perm: 0o600, Text: []byte("x")}}
		}, "is not an ed25519 key"},
		"no ssh":      {func(c *cluster) { delete(c.hosts["a"].files, sshDir+"/ssh_config") }, "does not include"},
		"not for all": {func(c *cluster) { c.hosts["a"].files[sshDir+"/ssh_config"] = facts.File{Text: "Host x\n" + included} }, "does not include"},
		"from the folder of the file": {func(c *cluster) {
			c.hosts["a"].files[sshDir+"/ssh_config"] = facts.File{Text: "Include other.d/*.conf \"ssh_config.d/*.conf\"\n"}
		}, ""},
		"from another folder": {func(c *cluster) {
			c.hosts["a"].files[sshDir+"/ssh_config"] = facts.File{Text: "Include ~/ssh_config.d/*.conf\n"}
		}, "does not include"},
	} {
		t.Run(name, func(t *testing.T) {
			k := newCluster(t, "a", "b")
			c.set(k)
			snaps, wanted := k.wanted()
			var said []string
			for _, r := range wanted["a"] {
				kind, _ := Kinds().Lookup(r.Addr.Kind)
				if _, err := kind.Plan(snaps["a"], r.Spec); err != nil {
					said = append(said, err.Error())
				}
			}
			if got := strings.Join(said, "; "); c.says == "" && got != "" || !strings.Contains(got, c.says) {
				t.Error(got)
			}
		})
	}
}

// TestAKeyThatWasRemovedComesBackAsANewOne: no copy of it exists.
func TestAKeyThatWasRemovedComesBackAsANewOne(t *testing.T) {
	f := newFake("a")
	f.record.Note(keys{}.Diff(KeySpec{train, "a"}, &KeyStatus{}))
	a := atomOf(KeyKind, train, "key")
	if err := makeKey(f, host.Account{Name: "ann"}, "train", ""); err != nil {
		t.Fatal(err)
	}
	restorer := Kinds()[0].Restorer
	saved, err := restorer.Save(t.Context(), f, []resource.Atom{a})
	if err != nil {
		t.Fatal(err)
	}
	was := string(f.homes["ann"].files["fabricform_train"].Text)
	if err := revert(t.Context(), f, a, ""); err != nil || len(f.homes["ann"].files) != 0 {
		t.Fatal(err, f.homes["ann"].files)
	}
	if left, err := restorer.Restore(t.Context(), f, saved); err != nil || len(left) > 0 {
		t.Fatal(left, err)
	}
	if now := string(f.homes["ann"].files["fabricform_train"].Text); now == was || !strings.Contains(now, "PRIVATE KEY") {
		t.Error("the key is the old one, or is missing")
	}
}

// TestNothingButValidPartsIsWritten: another host is where most of a spec comes from, so the host that writes it reads all of it.
func TestNothingButValidPartsIsWritten(t *testing.T) {
	if err := someSpec().check(); err != nil {
		t.Fatal(err)
	}
	const more = "\nMatch exec \"id\"\n"
	zone := netip.MustParseAddr("fd00::2%x" + more)
	for name, set := range map[string]func(s *Spec){
		"a line of the snippet": func(s *Spec) { s.Snippet += "Match exec id\n" },
		"a line before it":      func(s *Spec) { s.Snippet = "Match exec id\n" + s.Snippet },
		"a line of a section": func(s *Spec) {
			s.Snippet = strings.Replace(s.Snippet, "    HostName", "    ProxyCommand id\n    HostName", 1)
		},
		"a zone in the snippet":    func(s *Spec) { s.Snippet = strings.Replace(s.Snippet, "fd00::2", "fd00::2%x", 1) },
		"a pattern for an address": func(s *Spec) { s.Snippet = strings.Replace(s.Snippet, "fd00::2", "*", 1) },
		"a name for an address":    func(s *Spec) { s.Snippet = strings.Replace(s.Snippet, "HostName 10.0.0.2", "HostName evil", 1) },
		"a zone to start from":     func(s *Spec) { s.Snippet = strings.Replace(s.Snippet, "fd00::1", "fd00::1%x", 1) },
		"a name to start from":     func(s *Spec) { s.Snippet = strings.Replace(s.Snippet, "fd00::1", "evil", 1) },
		"a start for another host": func(s *Spec) { s.Snippet = strings.Replace(s.Snippet, "host fd00::2\n", "host fd00::9\n", 1) },
		"an impossible port":       func(s *Spec) { s.Snippet = strings.Replace(s.Snippet, "Port 2222", "Port 65536", 1) },
		"a word for a port":        func(s *Spec) { s.Snippet = strings.Replace(s.Snippet, "Port 2222", "Port ssh", 1) },
		"another key file": func(s *Spec) {
			s.Snippet = strings.Replace(s.Snippet, "~/.ssh/fabricform_train", "/root/.ssh/id_rsa", 1)
		},
		"a name of a host":             func(s *Spec) { s.Snippet = strings.ReplaceAll(s.Snippet, "# host b", "# host *") },
		"a known host":                 func(s *Spec) { s.Known += "* " + hostKey("x") + "\n" },
		"a pattern of known hosts":     func(s *Spec) { s.Known = strings.Replace(s.Known, "[10.0.0.2]:2222", "*", 1) },
		"an authority":                 func(s *Spec) { s.Known = strings.Replace(s.Known, "[10.0.0.2]", "@cert-authority [10.0.0.2]", 1) },
		"a comment of a known key":     func(s *Spec) { s.Known = strings.Replace(s.Known, hostKey("b"), hostKey("b")+" x", 1) },
		"no known key":                 func(s *Spec) { s.Known = strings.Replace(s.Known, hostKey("b"), "ssh-ed25519 AAAA", 1) },
		"no end of the last line":      func(s *Spec) { s.Known = strings.TrimSuffix(s.Known, "\n") },
		"another fabric's known hosts": func(s *Spec) { s.Known = strings.Replace(s.Known, `"lab"`, `"other"`, 1) },
		"a zone in from":               func(s *Spec) { s.Entries[0].From = append(s.Entries[0].From, zone) },
		"from everywhere":              func(s *Spec) { s.Entries[0].From = nil },
		"two keys":                     func(s *Spec) { s.Entries[0].Key += "\n" + someKey },
		"a comment of a key":           func(s *Spec) { s.Entries[0].Key += " me" },
		"options of a key":             func(s *Spec) { s.Entries[0].Key = "pty " + s.Entries[0].Key },
		"a line before a key":          func(s *Spec) { s.Entries[0].Key = "\n" + s.Entries[0].Key },
		"another type of key":          func(s *Spec) { s.Entries[0].Key = "ssh-rsa AAAA" },
		"a line in a host's name":      func(s *Spec) { s.Entries[0].Host = "b" + more },
		"a line in a mesh's name":      func(s *Spec) { s.Mesh = "train" + more },
		"a line in a user's name":      func(s *Spec) { s.User = "ann" + more },
		"a folder in a fabric's name":  func(s *Spec) { s.Fabric = "../lab" },
	} {
		t.Run(name, func(t *testing.T) {
			f, s := newFake("a"), someSpec()
			f.homes["ann"].files = map[string]host.LoginFile{}
			set(&s)
			snap, err := Kinds().Gather(t.Context(), f, resource.Query{Resources: []resource.Resource{resource.New("a", Kind, "train", fabric.Pos{}, someSpec())}})
			if err != nil {
				t.Fatal(err)
			}
			part.Of(snap)[s.User] = part.Of(snap)["ann"]
			if _, err := (entries{}).Observe(snap, s); err == nil || strings.Contains(err.Error(), "\n") {
				t.Errorf("observe: %v", err)
			}
			snippet, known := s.files()
			all := []resource.Change{atomOf(Kind, s.Login, "entry", s.Entries[0].Host).Change("", "x"), atomOf(Kind, s.Login, "file", snippet).Change("", "x"), atomOf(Kind, s.Login, "file", known).Change("", "x")}
			if err := (entries{}).Apply(t.Context(), f, s, all); err == nil || len(f.files) != 1 || len(f.homes["ann"].files) != 0 {
				t.Errorf("apply: %v, wrote %v %v", err, f.files, f.homes["ann"].files)
			}
		})
	}
	bad := KeySpec{train, "a" + more}
	if err := (keys{}).Apply(t.Context(), newFake("a"), bad, nil); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Error(err)
	}
}

// TestNoAnswerOfAHostReachesTheOthers: neither what it says of its address, nor a public key that is more than a key.
func TestNoAnswerOfAHostReachesTheOthers(t *testing.T) {
	zone := "%x\nMatch exec \"id\"\n#"
	for name, set := range map[string]func(s *facts.Snapshot){
		"the address of another host":               func(s *facts.Snapshot) { s.Management.Server = netip.MustParseAddr("10.0.0.3") },
		"the address of no host":                    func(s *facts.Snapshot) { s.Management.Server = netip.MustParseAddr("10.0.0.99") },
		"a zone":                                    func(s *facts.Snapshot) { s.Management.Server = netip.MustParseAddr("fd00::99" + zone) },
		"a zone of what was dialled":                func(s *facts.Snapshot) { s.Management.Dialled = netip.MustParseAddr("fd00::99" + zone) },
		"what was dialled is of another host's NIC": func(s *facts.Snapshot) { s.Management.Dialled = netip.MustParseAddr("10.9.0.3") },
		"what was dialled is shared":                func(s *facts.Snapshot) { s.Management.Dialled = netip.MustParseAddr("10.0.0.3") },
		"what was dialled is of a declared host":    func(s *facts.Snapshot) { s.Management.Dialled = netip.MustParseAddr("10.0.0.99") },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, "a", "b", "c")
			c.apply()
			snaps, _ := c.wanted()
			c.f.Hosts = append(c.f.Hosts, &fabric.Host{Name: "git", Address: "10.0.0.99"})
			set(snaps["b"])
			for _, r := range Joined(c.f, c.f.Hosts[0], snaps) {
				if r.Addr.Kind != Kind {
					continue
				}
				var s Spec
				if err := errors.Join(json.Unmarshal(r.Spec, &s), s.check()); err != nil {
					t.Fatal(err)
				}
				if strings.Contains(s.Snippet+s.Known, "99") {
					t.Errorf("%s%s", s.Snippet, s.Known)
				}
				for _, e := range s.Entries {
					if e.Host == "b" && slices.ContainsFunc(e.From, func(a netip.Addr) bool { return a.String() != "10.9.0.2" && a.String() != "10.0.0.2" }) {
						t.Errorf("%v", e.From)
					}
				}
				_, sections := split(s.Known)
				for _, section := range sections {
					if p := readKnown(section); p.key == hostKey("b") && slices.ContainsFunc(p.addrs, func(a netip.Addr) bool { return a.String() != "10.9.0.2" && a.String() != "10.0.0.2" }) {
						t.Errorf("the key of b is trusted at %v", p.addrs)
					}
				}
			}
		})
	}
	for name, public := range map[string]string{"two lines": someKey + "\n" + someKey, "options": "pty " + someKey, "a comment": someKey + " me", "another type": "ssh-rsa AAAA", "a line": "\n" + someKey} {
		c := newCluster(t, "a", "b")
		c.apply()
		snaps, _ := c.wanted()
		part.Of(snaps["b"])["ann"].Keys["train"] = public
		for _, r := range Joined(c.f, c.f.Hosts[0], snaps) {
			var s Spec
			if err := json.Unmarshal(r.Spec, &s); err != nil || len(s.Entries) > 0 {
				t.Errorf("%s: %v %v", name, s.Entries, err)
			}
		}
		for _, r := range Joined(c.f, c.f.Hosts[1], snaps) {
			kind, _ := Kinds().Lookup(r.Addr.Kind)
			if _, err := kind.Plan(snaps["b"], r.Spec); err == nil || !strings.Contains(err.Error(), "its key is not entered anywhere") {
				t.Errorf("%s: %s: %v", name, r.Addr.Kind, err)
			}
		}
	}
}

// TestADirectoryThatIsAwayForgetsNothing: a user who cannot be found or read is no reason to drop what was made for the user.
func TestADirectoryThatIsAwayForgetsNothing(t *testing.T) {
	for name, away := range map[string]func(f *fake){
		"not found":    func(f *fake) { f.getent = 2 },
		"no directory": func(f *fake) { f.getent = 1 },
		"a lost home":  func(f *fake) { f.spoilt = errors.New("stale file handle") },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, "a", "b")
			c.apply()
			c.f.LoginMeshes = nil
			away(c.hosts["a"])
			snaps, _ := c.wanted()
			if got := part.Of(snaps["a"])["ann"].Why; (c.hosts["a"].getent == 2) != strings.Contains(got, "does not exist") {
				t.Error(got)
			}
			var names []string
			for a := range c.records["a"].Atoms {
				names = append(names, string(a))
				kind, _ := Kinds().Lookup(a.Kind())
				_, _, err := kind.Undo(snaps["a"], a, "")
				if isFile := strings.HasPrefix(a.Value(), "file "); isFile != (err == nil) {
					t.Errorf("%s: %v", a, err)
				}
			}
			if len(names) < 6 {
				t.Fatal(names)
			}
			if got, err := readValues(t.Context(), c.hosts["a"], names); err == nil {
				t.Errorf("kept: %v", got)
			}
		})
	}
}

// TestALineThatTheUserAddsMeanwhileIsKept: the file is read again; if it changes all the time, nothing is written.
func TestALineThatTheUserAddsMeanwhileIsKept(t *testing.T) {
	for rounds, written := range map[int]bool{1: true, 2: false} {
		f := newFake("a")
		f.homes["ann"].files = map[string]host.LoginFile{host.AuthorizedKeys: {Perm: 0o600, Text: []byte("one\n")}}
		want := "one\n"
		f.meanwhile = func() {
			if rounds--; rounds >= 0 {
				want += "more\n"
				f.homes["ann"].files[host.AuthorizedKeys] = host.LoginFile{Perm: 0o600, Text: []byte(want)}
			}
		}
		err := edit(t.Context(), f, "ann", map[string]string{"train:b": someSpec().Entries[0].line(train)}, false)
		if written != (err == nil) || !written && !errors.Is(err, host.ErrChanged) {
			t.Error(err)
		}
		if written {
			want += someSpec().Entries[0].line(train) + "\n"
		}
		if got := string(f.homes["ann"].files[host.AuthorizedKeys].Text); got != want {
			t.Errorf("%q", got)
		}
	}
}

// TestAnotherUserOfAMesh: what was made for the earlier one goes, and nothing that is ours is in the way.
func TestAnotherUserOfAMesh(t *testing.T) {
	c := newCluster(t, "a", "b")
	c.apply()
	for _, h := range c.hosts {
		h.homes["bob"] = &home{id: h.name + " bob"}
	}
	c.f.LoginMeshes[0].User = "bob"
	for name, d := range c.diff(Kind) {
		for _, change := range d.Changes {
			if change.Refusal != "" {
				t.Errorf("%s: %v", name, change)
			}
		}
	}
	c.apply()
	c.apply() // nothing is wanted twice
	for name, h := range c.hosts {
		if h.homes["ann"].files != nil || len(entriesOf(string(h.homes["bob"].files[host.AuthorizedKeys].Text))) != 1 || len(h.files) != 3 {
			t.Errorf("%s: %v %v", name, h.homes, h.files)
		}
		for a := range c.records[name].Atoms {
			if !strings.HasPrefix(a.Thing(), "bob/") {
				t.Errorf("%s still owns %s", name, a)
			}
		}
	}
}

// TestTwoMeshesOfOneUserLeaveNothing: the first one made ~/.ssh and authorized_keys, which the second one also needs. They go with the last
// mesh, also if a mesh got another name meanwhile. What was there before the first mesh stays.
func TestTwoMeshesOfOneUserLeaveNothing(t *testing.T) {
	for _, names := range [][]string{{"train", "eval"}, {"eval", "train"}} {
		for _, at := range []string{"both at once", "the first one first", "the second one first", "another name"} {
			for _, before := range []map[string]host.LoginFile{nil, {}, {host.AuthorizedKeys: {Perm: 0o600}}} {
				c := newCluster(t, "a", "b")
				c.hosts["a"].homes["ann"].files = maps.Clone(before)
				first, second := c.f.LoginMeshes[0], *c.f.LoginMeshes[0]
				first.Name, second.Name = names[0], names[1]
				c.apply()
				switch at {
				case "another name":
					c.f.LoginMeshes = []*fabric.LoginMesh{&second}
				default:
					c.f.LoginMeshes = []*fabric.LoginMesh{first, &second}
				}
				c.apply()
				for name, h := range c.hosts {
					entered := entriesOf(string(h.homes["ann"].files[host.AuthorizedKeys].Text))
					if len(entered) != len(c.f.LoginMeshes) {
						t.Errorf("%s: %s has %v", at, name, entered)
					}
				}
				switch at {
				case "the first one first":
					c.f.LoginMeshes = []*fabric.LoginMesh{&second}
					c.apply()
				case "the second one first":
					c.f.LoginMeshes = []*fabric.LoginMesh{first}
					c.apply()
				}
				c.f.LoginMeshes = nil
				c.apply()
				for name, h := range c.hosts {
					want := before
					if name != "a" {
						want = nil
					}
					left := h.homes["ann"].files
					if (left == nil) != (want == nil) || len(left) != len(want) || len(c.records[name].Atoms) > 0 || len(h.files) != 1 {
						t.Errorf("%s, %s, then %s: left on %s of %v: %v, %v", at, names[0], names[1], name, want, left, c.records[name].Atoms)
					}
				}
			}
		}
	}
}

// TestWhatAnotherUserHasIsNotOurs: a mesh made ~/.ssh for one user, and the next one is for a user who has such a folder.
func TestWhatAnotherUserHasIsNotOurs(t *testing.T) {
	c := newCluster(t, "a", "b")
	c.apply()
	second := *c.f.LoginMeshes[0]
	second.Name, second.User = "eval", "bob"
	c.f.LoginMeshes = append(c.f.LoginMeshes, &second)
	for _, h := range c.hosts {
		h.homes["bob"] = &home{id: h.name + " bob", files: map[string]host.LoginFile{host.AuthorizedKeys: {Perm: 0o600}}}
	}
	c.apply()
	c.f.LoginMeshes = nil
	c.apply()
	for name, h := range c.hosts {
		if _, kept := h.homes["bob"].files[host.AuthorizedKeys]; !kept || len(h.homes["bob"].files) != 1 || h.homes["ann"].files != nil {
			t.Errorf("%s: %v %v", name, h.homes["bob"], h.homes["ann"])
		}
	}
}
