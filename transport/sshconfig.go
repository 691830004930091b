package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// sshConfig answers what OpenSSH's configuration says about hosts. OpenSSH reads the configuration itself (`ssh -G`), because no
// library supports all of it. One process for each host costs too much, so hosts with equal settings share an answer. The first
// call also lists the files that ssh read. If a file may distinguish two hosts, each gets its own call. Safe for concurrent use.
type sshConfig struct {
	first   sync.Mutex
	path    string       // of ssh
	tells   *differences // nil until a first call succeeded
	mu      sync.Mutex
	answers map[question]*answer
}

// question is what `ssh -G` is asked. Name is a host's name, or stands for a group of names.
type question struct {
	name, user string
	port       int
}

// answer is what `ssh -G` printed for a host.
type answer struct {
	mu   sync.Mutex
	name string              // of the host that was asked about
	conf map[string][]string // nil until a call succeeded
}

// ask returns the configuration for a target, which the caller must not change: keywords in lower case, each with its values. It also
// returns the host's name by HostName, which may differ within a group. Without an ssh program the configuration is ignored, and
// both are empty. Errors are not kept: the next host asks again.
func (s *sshConfig) ask(ctx context.Context, t Target) (conf map[string][]string, hostname string, err error) {
	q := question{t.Address, t.User, t.Port}
	s.first.Lock()
	if s.tells == nil {
		defer s.first.Unlock()
		if s.path, err = exec.LookPath("ssh"); errors.Is(err, exec.ErrNotFound) {
			return nil, "", nil
		} else if err != nil {
			return nil, "", fmt.Errorf("find ssh: %w", err)
		}
		conf, said, err := askSSH(ctx, s.path, q, "-v")
		if err != nil {
			return nil, "", err
		}
		s.tells = searchFiles(said)
		s.tells.drop(conf)
		a := &answer{name: q.name, conf: conf}
		if group, known := s.tells.group(q); known {
			s.answers = map[question]*answer{group: a}
		}
		return conf, a.hostname(q.name), nil
	}
	s.first.Unlock()
	a := &answer{}
	if group, known := s.tells.group(q); known {
		s.mu.Lock()
		if s.answers[group] == nil {
			s.answers[group] = a
		}
		a = s.answers[group]
		s.mu.Unlock()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.conf == nil {
		conf, _, err := askSSH(ctx, s.path, q)
		if err != nil {
			return nil, "", err
		}
		s.tells.drop(conf)
		a.name, a.conf = q.name, conf
	}
	return a.conf, a.hostname(q.name), nil
}

// hostname returns what a host of the group is called. If no HostName is set, ssh answers with the name that it was asked about.
func (a *answer) hostname(name string) string {
	if h := a.conf["hostname"]; len(h) != 1 || h[0] != a.name {
		return strings.Join(h, "")
	}
	return name
}

// askSSH runs `ssh -G`, and also returns what ssh printed to its error output.
func askSSH(ctx context.Context, path string, q question, options ...string) (map[string][]string, string, error) {
	args := append(options, "-G")
	if q.user != "" {
		args = append(args, "-l", q.user)
	}
	if q.port != 0 {
		args = append(args, "-p", strconv.Itoa(q.port))
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, path, append(args, "--", q.name)...)
	cmd.Stderr, cmd.WaitDelay = &said, time.Second // a program of `Match exec` may survive ssh and keep the output open
	out, err := cmd.Output()
	if err != nil {
		return nil, "", fmt.Errorf("ssh -G: %w: %s", err, neutral(debugLine().ReplaceAllString(said.String(), "")))
	}
	return parseSSHG(out), said.String(), nil
}

// parseSSHG parses lines of the form "key value". Keys may repeat.
func parseSSHG(out []byte) map[string][]string {
	conf := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if ok {
			conf[key] = append(conf[key], value)
		}
	}
	return conf
}

var (
	// debugLine is what -v adds.
	debugLine = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?m)^(?:debug\d: |OpenSSH_).*\n?`)
	})
	// readingLine comes from readconf.c, read_config_file_depth.
	readingLine = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?m)^debug1: Reading configuration data (.*?)\r?$`)
	})
	keywordOf = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([A-Za-z0-9]+)[ \t=]`) })
	nameOf    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z](?:[a-z0-9._-]{0,250}[a-z0-9])?$`) })
)

// differences is what configuration files contain that can tell hosts apart. It holds all their words, because every
// comparison of ssh with a host's name is with a word of a file: patterns of Host and Match, jump hosts.
type differences struct {
	unclear  bool            // any two hosts may differ: something runs programs, looks up names or is not understood
	names    map[string]bool // words without wildcards
	patterns []string        // words with wildcards
	tokens   []string        // patterns of the Host blocks with a value that contains the name of the host; "*" is all hosts
	again    bool            // the files are read a second time, for what HostName gives (Match final)
	sets     map[string]bool // keywords that a file has
	unread   bool            // not all files could be read, so any keyword may be set
}

// drop removes from an answer what is only ssh's default, of the keywords whose default is not followed.
func (d *differences) drop(conf map[string][]string) {
	for _, keyword := range []string{"kexalgorithms", "ciphers", "macs"} {
		if !d.sets[keyword] && !d.unread {
			delete(conf, keyword)
		}
	}
}

// group returns the question that stands for all that have the same answer, except for the host's own name. It returns false
// if that is unknown: the same question may then have another answer the next time.
func (d *differences) group(q question) (question, bool) {
	if d.unclear || d.unread {
		return q, false
	}
	if !plain(q.name) || d.names[q.name] || d.again && len(d.tokens) > 0 || slices.ContainsFunc(d.tokens, func(p string) bool { return matchPattern(q.name, p) }) {
		return q, true
	}
	var like strings.Builder
	like.WriteByte(' ') // no name begins so
	for _, p := range d.patterns {
		if matchPattern(q.name, p) {
			like.WriteByte('1')
		} else {
			like.WriteByte('0')
		}
	}
	q.name = like.String()
	return q, true
}

// plain reports whether ssh takes a name as it is: it does not change the case, and rewrites no form of an address (is_addr and
// resolve_canonicalize in ssh.c). A name that begins with a digit can be an address in a form that only C's library knows.
func plain(name string) bool {
	if a, err := netip.ParseAddr(name); err == nil {
		return a.String() == name && a.Zone() == "" && (a.Is4() || a.IsGlobalUnicast() && a.As16()[0] != 0)
	}
	return nameOf().MatchString(name)
}

// matchPattern is match_pattern of OpenSSH's match.c: ? is one character, * any number.
func matchPattern(s, pattern string) bool {
	star, from := -1, 0
	for i, j := 0, 0; ; {
		switch {
		case j < len(pattern) && pattern[j] == '*':
			star, from = j, i
			j++
		case i == len(s) && j == len(pattern):
			return true
		case i < len(s) && j < len(pattern) && (pattern[j] == '?' || pattern[j] == s[i]):
			i, j = i+1, j+1
		case star >= 0 && from < len(s):
			from++
			i, j = from, star+1
		default:
			return false
		}
	}
}

// searchFiles searches the files that ssh -v says it has read. If it names none, or one that cannot be read, all is unclear.
func searchFiles(said string) *differences {
	d := &differences{names: map[string]bool{}, sets: map[string]bool{}}
	files := readingLine().FindAllStringSubmatch(said, -1)
	d.unread = len(files) == 0
	for _, f := range files {
		text, err := os.ReadFile(f[1])
		if err != nil || len(text) > 1<<20 || len(f[1]) >= 200 { // ssh prints 200 bytes of a path
			d.unread = true
			continue
		}
		d.search(string(text))
	}
	slices.Sort(d.patterns)
	d.patterns = slices.Compact(d.patterns)
	return d
}

// search adds what one file contains.
func (d *differences) search(text string) {
	block := []string{"*"} // patterns of the Host block; what includes a file may be any
	for line := range strings.Lines(text) {
		line = strings.Trim(line, " \t\r\n")
		if line == "" || line[0] == '#' {
			continue
		}
		m := keywordOf().FindStringSubmatch(line)
		if m == nil {
			d.unread = true
			return
		}
		keyword, value := strings.ToLower(m[1]), line[len(m[0]):]
		d.sets[keyword] = true
		all := words(value)
		for _, w := range all {
			if strings.ContainsAny(w, "*?") {
				d.patterns = append(d.patterns, w)
			} else {
				d.names[w] = true
			}
		}
		switch {
		case keyword == "host":
			block = all
		case keyword == "match":
			block = []string{"*"}
			d.match(value)
		case keyword == "include":
			d.unclear = d.unclear || strings.ContainsAny(value, "%$") // a file for each host
		case strings.HasPrefix(keyword, "canonical"), !slices.Contains(keywords, keyword):
			d.unclear = true
		case strings.Contains(ownTokens.Replace(value), "%") && !slices.Contains(unused, keyword):
			d.tokens = append(d.tokens, block...)
		}
	}
}

// match reads the criteria of a Match line (match_cfg_line in readconf.c).
func (d *differences) match(line string) {
	if strings.ContainsAny(line, `'\`) || strings.Count(line, `"`)%2 != 0 {
		d.unclear = true
		return
	}
	quoted := false
	criteria := strings.FieldsFunc(line, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return !quoted && (r == ' ' || r == '\t')
	})
	for i := 0; i < len(criteria); i++ {
		attribute, _, has := strings.Cut(strings.ToLower(strings.TrimPrefix(strings.ReplaceAll(criteria[i], `"`, ""), "!")), "=")
		switch attribute {
		case "all":
		case "canonical", "final":
			d.again = true
		case "host", "originalhost", "user", "localuser", "localnetwork", "version", "tagged", "command", "sessiontype":
			if !has {
				i++ // its argument
			}
		default:
			if attribute == "" || attribute[0] != '#' {
				d.unclear = true // exec, or newer than this list
			}
			return
		}
	}
}

// words returns all that ssh could take for a name or a pattern of hosts in a value, however the version reads quotes, commas,
// = and comments, and whether it folds case.
func words(value string) []string {
	var all []string
	for _, quote := range []string{" ", ""} { // a quote ends a word or belongs to it
		s := strings.NewReplacer(`"`, quote, `'`, quote).Replace(value)
		for _, colon := range []string{"", ":"} { // of an address, or before a port
			for _, w := range strings.FieldsFunc(s, func(r rune) bool {
				return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-*?"+colon, r)
			}) {
				all = append(all, w, strings.ToLower(w))
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// ownTokens removes the tokens that are the same for all hosts: a percent sign, and what the client's machine and user are called.
var ownTokens = strings.NewReplacer("%%", "", "%d", "", "%i", "", "%l", "", "%L", "", "%u", "")

// unused are keywords whose tokens change nothing that is read from the answer; of ProxyCommand, ssh prints the tokens.
var unused = strings.Fields("certificatefile controlpath knownhostscommand localcommand proxycommand remotecommand setenv")

// keywords are those of OpenSSH 10.5 (readconf.c) that cannot tell hosts apart but by a token in their value, and those that
// Debian, Red Hat and Apple add.
var keywords = strings.Fields(`
	addkeystoagent addressfamily afstokenpassing batchmode bindaddress bindinterface casignaturealgorithms
	certificatefile challengeresponseauthentication channeltimeout checkhostip cipher ciphers clearallforwardings compression
	compressionlevel connectionattempts connecttimeout controlmaster controlpath controlpersist dsaauthentication dynamicforward
	enableescapecommandline enablesshkeysign escapechar exitonforwardfailure fallbacktorsh fingerprinthash forkafterauthentication
	forwardagent forwardx11 forwardx11timeout forwardx11trusted gatewayports globalknownhostsfile globalknownhostsfile2
	gssapiauthentication gssapidelegatecredentials hashknownhosts hostbasedacceptedalgorithms hostbasedauthentication
	hostbasedkeytypes hostkeyalgorithms hostkeyalias hostname identitiesonly identityagent identityfile identityfile2
	ignoreunknown ipqos kbdinteractiveauthentication kbdinteractivedevices keepalive kerberosauthentication kerberostgtpassing
	kexalgorithms knownhostscommand localcommand localforward logfacility loglevel logverbose macs
	nohostauthenticationforlocalhost numberofpasswordprompts obscurekeystroketiming passwordauthentication permitlocalcommand
	permitremoteopen pkcs11provider port preferredauthentications protocol proxycommand proxyjump proxyusefdpass
	pubkeyacceptedalgorithms pubkeyacceptedkeytypes pubkeyauthentication rekeylimit refuseconnection remotecommand remoteforward
	requesttty requiredrsasize revokedhostkeys rhostsauthentication rhostsrsaauthentication rsaauthentication securitykeyprovider
	sendenv serveralivecountmax serveraliveinterval sessiontype setenv skeyauthentication smartcarddevice stdinnull
	streamlocalbindmask streamlocalbindunlink stricthostkeychecking syslogfacility tag tcpkeepalive tisauthentication tunnel
	tunneldevice updatehostkeys useprivilegedport user userknownhostsfile userknownhostsfile2 useroaming usersh verifyhostkeydns
	versionaddendum visualhostkey warnweakcrypto xauthlocation
	debianbanner gssapiclientidentity gssapikexalgorithms gssapikeyexchange gssapirenewalforcesrekey gssapiserveridentity
	gssapitrustdns usekeychain`)
