package probe

import "github.com/fabricform/fabricform/agent"

// Served returns this package's methods, for a helper to serve. Measurements that start in one call and end in
// another are kept in memory in between, and end with the helper.
func Served() []agent.Served {
	tcp, verbs, ranks, captures, cabling := new(tcpServer), new(verbsServer), new(collectives), new(captureServer), new(cablingServer)
	return []agent.Served{
		Ping.Serve(pingAll),
		ReadCounters.Serve(readCounters),
		ReadRDMACounters.Serve(readRDMACounters),
		ReadPriorities.Serve(readPriorities),
		ListenTCP.Serve(tcp.Listen),
		SendTCP.Serve(sendTCP),
		CollectTCP.Serve(tcp.Collect),
		ServeVerbs.Serve(verbs.Serve),
		RunVerbs.Serve(verbs.Run),
		CollectVerbs.Serve(verbs.Collect),
		VerbsVersion.Serve(verbs.Version),
		InspectCollective.Serve(ranks.Look),
		RunCollective.Serve(ranks.Run),
		StopCollective.Serve(ranks.Stop),
		InspectLaunch.Serve(ranks.LaunchLook),
		Launch.Serve(ranks.Launch),
		TendRanks.Serve(ranks.TendRanks),
		AwaitTended.Serve(ranks.AwaitTended),
		StartCapture.Serve(captures.Start),
		CollectCapture.Serve(captures.Collect),
		ListenCabling.Serve(cabling.Listen),
		SendCabling.Serve(cabling.Send),
		CollectCabling.Serve(cabling.Collect),
	}
}
