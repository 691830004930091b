package mpi

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestReleasesAreRead(t *testing.T) {
	for text, want := range map[string]string{
		"mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/\n": "Open MPI 4.1.4",
		"mpirun.openmpi (OpenRTE) 4.1.4\n": "Open MPI 4.1.4",
		"mpirun (Open MPI) 5.0.7\n":        "Open MPI 5.0.7",
		"HYDRA build details:\n    Version:                                 4.0.2\n    Release Date:      Thu Apr  7 2022\n": "MPICH 4.0.2",
		"Intel(R) MPI Library for Linux* OS, Version 2021.11 Build 20231005\n":                                               "",
		"": "",
	} {
		r, err := ParseRelease([]byte(text))
		if want == "" && err == nil || want != "" && r.String() != want {
			t.Errorf("%q: %v %v", text, r, err)
		}
	}
}

// What launchers really ask for: Open MPI 4.1.4 and MPICH 4.0.2 of Debian 12, Open MPI 5.0.7 of Debian 13.
func TestLaunchersWordsAreUnderstood(t *testing.T) {
	for name, c := range map[string]struct {
		words []string
		want  string
	}{
		"Open MPI 4": {[]string{`         PATH=/usr/bin:$PATH ; export PATH ; LD_LIBRARY_PATH=/usr/lib:${LD_LIBRARY_PATH:-} ; export LD_LIBRARY_PATH ; DYLD_LIBRARY_PATH=/usr/lib:${DYLD_LIBRARY_PATH:-} ; export DYLD_LIBRARY_PATH ;   /usr/bin/orted`,
			"-mca", "ess", `"env"`, "-mca", "ess_base_vpid", "1", "-mca", "orte_node_regex", `"vm,[2:10].99.0.2@0(2)"`, "-mca", "orte_hnp_uri", `"330694656.0;tcp://10.99.0.1:49973"`, "-mca", "coll", `"^hcoll,ucc"`},
			`/usr/bin/orted -mca|ess|env|-mca|ess_base_vpid|1|-mca|orte_node_regex|vm,[2:10].99.0.2@0(2)|-mca|orte_hnp_uri|330694656.0;tcp://10.99.0.1:49973|-mca|coll|^hcoll,ucc PATH=/usr/bin:/bin|LD_LIBRARY_PATH=/usr/lib:/opt/lib|DYLD_LIBRARY_PATH=/usr/lib:`},
		"Open MPI 4 of a folder": {[]string{`  OPAL_PREFIX=/opt/ompi ; export OPAL_PREFIX;    PATH=/opt/ompi/bin:$PATH ; export PATH ; LD_LIBRARY_PATH=/opt/ompi/lib:${LD_LIBRARY_PATH:-} ; export LD_LIBRARY_PATH ;   /opt/ompi/bin/orted`, "-mca", "ess", `"env"`},
			`/opt/ompi/bin/orted -mca|ess|env OPAL_PREFIX=/opt/ompi|PATH=/opt/ompi/bin:/bin|LD_LIBRARY_PATH=/opt/ompi/lib:/opt/lib`},
		"bare": {[]string{" orted", "-mca", "ess", `"env"`}, "orted -mca|ess|env "},
		"Open MPI 5": {[]string{`PRTE_PREFIX=/usr;export PRTE_PREFIX;LD_LIBRARY_PATH=/usr/lib:/usr/lib/x86_64-linux-gnu/pmix2/lib:$LD_LIBRARY_PATH;export LD_LIBRARY_PATH;DYLD_LIBRARY_PATH=/usr/lib:/usr/lib/x86_64-linux-gnu/pmix2/lib:$DYLD_LIBRARY_PATH;export DYLD_LIBRARY_PATH;/usr/bin/prted`,
			"--leave-session-attached", "--prtemca", "ess", `"env"`, "--prtemca", "prte_hnp_uri", `"prterun-h1-15328@0.0;tcp://10.99.0.1:40825:24"`},
			"/usr/bin/prted --leave-session-attached|--prtemca|ess|env|--prtemca|prte_hnp_uri|prterun-h1-15328@0.0;tcp://10.99.0.1:40825:24 PRTE_PREFIX=/usr|LD_LIBRARY_PATH=/usr/lib:/usr/lib/x86_64-linux-gnu/pmix2/lib:/opt/lib|DYLD_LIBRARY_PATH=/usr/lib:/usr/lib/x86_64-linux-gnu/pmix2/lib:"},
		"Hydra": {[]string{`"/usr/bin/hydra_pmi_proxy"`, "--control-port", "10.99.0.1:34503", "--usize", "-2"}, "/usr/bin/hydra_pmi_proxy --control-port|10.99.0.1:34503|--usize|-2 "},
	} {
		got, err := Shell(c.words, []string{"PATH=/bin", "LD_LIBRARY_PATH=/opt/lib"})
		if text := got.Program + " " + strings.Join(got.Args, "|") + " " + strings.Join(got.Env, "|"); err != nil || text != c.want {
			t.Errorf("%s: %v\n%s\n%s", name, err, text, c.want)
		}
	}
}

func TestNothingElseIsStarted(t *testing.T) {
	for _, line := range []string{
		"", "orted; reboot", "reboot; orted", "reboot", "/bin/sh -c orted", "LD_PRELOAD=/tmp/x.so ; orted", "export LD_PRELOAD ; orted", "PATH=/x orted", "orted && reboot", "orted | tee x",
		"orted $(reboot)", "orted `reboot`", `orted "$(reboot)"`, "orted \"`reboot`\"", "orted > /etc/passwd", "orted $HOME", "orted ${PATH:-$(reboot)}", "orted $PATHX", "orted 'x", `orted "x`, "orted x\nreboot",
		"orted *", "orted x{a,b}", "( orted )", "orted &", "orted #x", "../orted", "bin/orted", "/opt/../tmp/orted", "/tmp//orted", "orted --daemonize", `orted \`, "orted \\\nreboot", "exec orted", "orted ; orted", "PATH=/x",
	} {
		if c, err := Shell([]string{line}, nil); err == nil {
			t.Errorf("%q is taken as %+v", line, c)
		}
	}
}

// However words are written, a daemon's name is what is started, and variables are known ones.
func FuzzShell(f *testing.F) {
	for _, s := range []string{" PATH=/usr/bin:$PATH ; export PATH ; /usr/bin/orted -mca \"x;y\" 'z'", `"/usr/bin/hydra_pmi_proxy" --a`, "PRTE_PREFIX=/o;export PRTE_PREFIX;/o/bin/prted \\; x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		c, err := Shell([]string{line}, []string{"PATH=/bin"})
		if err != nil {
			return
		}
		if base := c.Program[strings.LastIndexByte(c.Program, '/')+1:]; !slices.Contains(daemons, base) {
			t.Errorf("%q starts %q", line, c.Program)
		}
		for _, e := range c.Env {
			if name, _, is := strings.Cut(e, "="); !is || !slices.Contains(assigned, name) {
				t.Errorf("%q sets %q", line, e)
			}
		}
	})
}

func TestALaunchIsChecked(t *testing.T) {
	sound := func() Launch {
		return Launch{Release: Release{OpenMPI, "4.1.4"}, Hosts: []Host{{netip.MustParseAddr("10.0.0.1"), 2}, {netip.MustParseAddr("10.0.0.2"), 4}}, Networks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}}
	}
	if l := sound(); l.Check() != nil || strings.Join(l.Args("x", "-y"), " ") != "-host localhost:2,10.0.0.2:4 -np 6 --bind-to none --leave-session-attached x -y" {
		t.Error(l.Check(), l.Args("x", "-y"))
	}
	for name, spoil := range map[string]func(*Launch){
		"one address twice": func(l *Launch) { l.Hosts[1].Address = l.Hosts[0].Address },
		"IPv6":              func(l *Launch) { l.Hosts[1].Address = netip.MustParseAddr("fe80::1%x,-mca") },
		"no ranks":          func(l *Launch) { l.Hosts[0].Ranks = 0 },
		"alone":             func(l *Launch) { l.Hosts = l.Hosts[:1] },
		"no network":        func(l *Launch) { l.Networks = nil },
		"bits of a host":    func(l *Launch) { l.Networks[0] = netip.MustParsePrefix("10.0.0.1/24") },
		"another MPI":       func(l *Launch) { l.Release.Kind = "x" },
	} {
		if l := sound(); spoil != nil {
			spoil(&l)
			if l.Check() == nil {
				t.Errorf("%s passes", name)
			}
		}
	}
}

// What mpirun is told, for ranks in two networks.
func TestMPIRunIsTold(t *testing.T) {
	for kind, want := range map[string]string{
		OpenMPI: `-host localhost:2,10.1.0.2:4 -np 6 --bind-to none --leave-session-attached /opt/x -y
OMPI_MCA_plm=rsh
OMPI_MCA_plm_rsh_agent=/tmp/f/agent
OMPI_MCA_plm_rsh_no_tree_spawn=1
OMPI_MCA_plm_rsh_num_concurrent=2
OMPI_MCA_plm_rsh_assume_same_shell=0
OMPI_MCA_oob_tcp_if_include=10.0.0.0/24,10.1.0.0/24
PRTE_MCA_plm=ssh
PRTE_MCA_plm_ssh_agent=/tmp/f/agent
PRTE_MCA_plm_ssh_no_tree_spawn=1
PRTE_MCA_plm_ssh_num_concurrent=2
PRTE_MCA_plm_ssh_assume_same_shell=0
PRTE_MCA_prte_if_include=10.0.0.0/24,10.1.0.0/24
OMPI_MCA_mpi_yield_when_idle=1
OMPI_MCA_pml=ob1
OMPI_MCA_btl=tcp,self
OMPI_MCA_coll=^hcoll,ucc
OMPI_MCA_btl_tcp_if_include=10.0.0.0/24,10.1.0.0/24
OMPI_MCA_btl_tcp_port_min_v4=32768
OMPI_MCA_btl_tcp_port_range_v4=28231
OMPI_ALLOW_RUN_AS_ROOT=1
OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
PRTE_ALLOW_RUN_AS_ROOT=1
PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1`,
		MPICH: `-genvnone -localhost 10.0.0.1 -hosts 10.0.0.1:2,10.1.0.2:4 -n 6 -bind-to none /opt/x -y
HYDRA_LAUNCHER=rsh
HYDRA_LAUNCHER_EXEC=/tmp/f/agent`,
	} {
		l := Launch{Release: Release{Kind: kind}, Hosts: []Host{{netip.MustParseAddr("10.0.0.1"), 2}, {netip.MustParseAddr("10.1.0.2"), 4}},
			Networks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("10.1.0.0/24")}}
		got := strings.Join(append([]string{strings.Join(l.Args("/opt/x", "-y"), " ")}, l.Env("/tmp/f/agent")...), "\n")
		if l.Check() != nil || got != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", kind, l.Check(), got, want)
		}
	}
	if got := strings.Join(RankEnv("eth0"), " "); got != "UCX_TLS=tcp,self UCX_NET_DEVICES=eth0 FI_PROVIDER=tcp FI_TCP_IFACE=eth0" {
		t.Error(got)
	}
}

func TestReasonsAreOneLine(t *testing.T) {
	var told strings.Builder // by Open MPI 4.1.4, where two hosts are in different networks
	for _, host := range []string{"a", "b"} {
		for _, what := range []string{"oob", "btl"} {
			const line = "--------------------------------------------------------------------------\n"
			told.WriteString(line + "WARNING: An invalid value was given for " + what + "_tcp_if_include.  This\nvalue will be ignored.\n\n  Local host: " + host + "\n  Value:      10.78.0.0/24\n  Message:    Did not find interface matching this subnet\n" + line)
		}
	}
	told.WriteString("mpirun noticed that process rank 1 with PID 0 on node vm exited on signal 4 (Illegal instruction).\n")
	if got := Reason(nil, []byte(told.String()), 400); got != "mpirun noticed that process rank 1 with PID 0 on node vm exited on signal 4 (Illegal instruction)." {
		t.Error(got)
	}
	if got := Reason([]byte("# table\n"), []byte("-----\nmpirun noticed that process rank 1 with PID 0 on node\n  b exited on signal 9\x1b[0m (Killed).\n-----\n"), 60); got != "mpirun noticed that process rank 1 with PID 0 on node b exit…" {
		t.Error(got)
	}
	hydra := "# table\n\n=====\n=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 3 RUNNING AT b\n=   EXIT CODE: 9\n=   CLEANING UP REMAINING PROCESSES\n=====\n"
	if got := Reason([]byte(hydra), []byte("[proxy:0:0@a] assert (!closed) failed\n"), 600); got != "BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES PID 3 RUNNING AT b EXIT CODE: 9" {
		t.Error(got)
	}
}
