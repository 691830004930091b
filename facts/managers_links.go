package facts

import (
	"cmp"
	"crypto/md5" //nolint:gosec // NetworkManager's choice, for no secret
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/fabricform/fabricform/host"
)

// networkd says in a file for each link which file it took; netplan's files are below /run
// (man systemd.network(5), netplan's src/networkd.c).
func (m *Managers) networkd(r host.Reader, s *Snapshot) {
	for _, l := range s.Links {
		file := ""
		for line := range strings.Lines(text(r, "/run/systemd/netif/links/"+strconv.Itoa(l.Index))) {
			if v, is := strings.CutPrefix(strings.TrimSpace(line), "NETWORK_FILE="); is {
				file = v
			}
		}
		if file == "" {
			continue
		}
		c := Claim{Manager: Networkd, File: file, Exact: networkdNames(text(r, file), l)}
		if strings.HasPrefix(file, "/run/systemd/network/10-netplan-") {
			c.Manager = Netplan
		}
		m.Claims[l.Name] = c
	}
}

// networkdNames says whether a .network file's [Match] tells this link from all others.
func networkdNames(file string, l host.Link) bool {
	section := ""
	for line := range strings.Lines(file) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = line
		}
		key, value, is := strings.Cut(line, "=")
		if !is || section != "[Match]" {
			continue
		}
		words := strings.Fields(strings.ToLower(value))
		switch strings.TrimSpace(key) {
		case "MACAddress", "PermanentMACAddress":
			if slices.Contains(words, l.MAC) || slices.Contains(words, l.PermMAC) {
				return true
			}
		case "Name", "OriginalName":
			if slices.Contains(strings.Fields(value), l.Name) {
				return true
			}
		}
	}
	return false
}

// networkManager says in a file for each link which profile it has active; the profile's file is
// found by its identity. For what others made it writes a profile that nobody configured (seen with
// 1.52: `external` in a section of its own), which is no claim.
func (m *Managers) networkManager(r host.Reader, s *Snapshot) {
	profiles := map[string]string{}
	for _, dir := range []string{"/usr/lib/NetworkManager/system-connections", "/run/NetworkManager/system-connections", "/etc/NetworkManager/system-connections"} {
		for _, name := range filesIn(r, dir, "") {
			file := path.Join(dir, name)
			profile := text(r, file)
			if keyValue(profile, ".nmmeta", "external") != "true" {
				profiles[cmp.Or(keyValue(profile, "connection", "uuid"), profileUUID(name))] = file
			}
		}
	}
	for _, l := range s.Links {
		device := text(r, "/run/NetworkManager/devices/"+strconv.Itoa(l.Index))
		if keyValue(device, "device", "managed") == "true" {
			m.InCharge = append(m.InCharge, l.Name)
		}
		file := profiles[keyValue(device, "device", "connection-uuid")]
		if file == "" {
			continue
		}
		c := Claim{Manager: NetworkManager, File: file}
		profile := text(r, file)
		c.Exact = keyValue(profile, "connection", "interface-name") == l.Name || strings.EqualFold(keyValue(profile, "ethernet", "mac-address"), l.PermMAC) && l.PermMAC != ""
		if strings.HasPrefix(path.Base(file), "netplan-") {
			c.Manager = Netplan
		}
		m.Claims[l.Name] = c
	}
}

// profileUUID is the identity that NetworkManager gives a profile whose file has none, as netplan's
// do: of version 3, of the file's name, as if it stood below /etc (NetworkManager 1.52,
// nms-keyfile-reader.c and nm-uuid.c).
func profileUUID(name string) string {
	space := [16]byte{0xb4, 0x25, 0xe9, 0xfb, 0x75, 0x98, 0x44, 0xb4, 0x9e, 0x3b, 0x5a, 0x2e, 0x3a, 0xaa, 0x49, 0x05}
	id := md5.Sum(append(space[:], "keyfile\x00/etc/NetworkManager/system-connections/"+name+"\x00"...)) //nolint:gosec // as above
	id[6], id[8] = id[6]&0x0f|0x30, id[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// keyValue reads a value of a keyfile (nm-settings-keyfile(5)); "" where there is none.
func keyValue(file, section, key string) string {
	in := false
	for line := range strings.Lines(file) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			in = line == "["+section+"]"
			continue
		}
		if k, v, is := strings.Cut(line, "="); in && is && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// ifupdown's files are what people wrote (interfaces(5)); it takes links that have a stanza.
func (m *Managers) ifupdown(r host.Reader) {
	const main, dir = "/etc/network/interfaces", "/etc/network/interfaces.d"
	m.stanzas(main, text(r, main))
	for line := range strings.Lines(text(r, main)) {
		f := strings.Fields(line)
		m.Sourced = m.Sourced || len(f) > 1 && (f[0] == "source" || f[0] == "source-directory") && strings.Contains(f[1], "interfaces.d")
	}
	if !m.Sourced {
		return
	}
	for _, name := range filesIn(r, dir, "") {
		m.stanzas(path.Join(dir, name), text(r, path.Join(dir, name)))
	}
}

func (m *Managers) stanzas(file, text string) {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "iface" && f[1] != "lo" {
			m.Claims[f[1]] = Claim{Manager: Ifupdown, File: file, Exact: true}
		}
	}
}
