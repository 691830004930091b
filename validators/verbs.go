package validators

import "context"

// verbs says that RDMA itself is not measured yet: silence would read as proof.
func (t *trial) verbs(context.Context) {
	skip := Result{Check: "verbs", Link: t.path.Name, Host: t.ends[0].host, Peer: t.ends[1].host, Verdict: Skip, What: "RDMA", Cause: "not in this build: RDMA is not measured yet"}
	if !t.path.Validate.Verbs.Enabled {
		skip.Cause = "disabled in validate"
	}
	t.add(skip)
}
