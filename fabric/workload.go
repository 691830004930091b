package fabric

import "time"

// Workload is what runs over links and networks that name it as `workload.NAME`: training, inference or checkpoints of one model. What
// is not set is unknown: results are then ranges. The bounds `max_step_seconds`, `max_first_token_seconds` and `checkpoint_interval`
// are judged on links and networks of the roles training, inference and checkpoint: a bound that cannot hold over the declared distance
// is an error, and `verify` judges it by what it measures.
type Workload struct {
	Block
	Name string

	// Number of parameters of the model, such as `70e9`.
	Parameters *float64 `ff:"parameters,min=1,max=1e18"`
	// Format of gradients and, unless `kv_precision` is set, of the KV cache.
	Precision string `ff:"precision,one=fp32|bf16|fp16|fp8|int8|fp4"`

	// Number of ranks in the all-reduce, in all sites together.
	Ranks int `ff:"ranks,min=2,max=1000000"`
	// Number of sites that the link or network connects.
	Sites int `ff:"sites,min=2,max=64,default=2"`
	// How gradients are reduced: `ring` is one ring of all ranks, by one communicator; `hierarchical` within each site and then between the
	// sites, by a communicator for each shard. With groups of model parallelism, each of which has its own communicator, leave it out.
	AllReduce string `ff:"all_reduce,one=ring|hierarchical"`
	// Seconds that a training step takes without the link.
	StepSeconds *float64 `ff:"step_seconds,min=0,least=0.000001,max=1000000"`
	// Training steps from one all-reduce over the link to the next, as in local SGD.
	StepsPerSync int `ff:"steps_per_sync,min=1,max=1000000,default=1"`
	// Largest allowed mean duration of a training step, in seconds.
	MaxStepSeconds *float64 `ff:"max_step_seconds,min=0,least=0.000001,max=1000000"`

	// Number of layers that have a KV cache.
	Layers int `ff:"layers,min=1,max=100000"`
	// Number of heads of the KV cache: that of keys and values, not of queries.
	KVHeads int `ff:"kv_heads,min=1,max=100000"`
	// Size of a head.
	HeadSize int `ff:"head_size,min=1,max=100000"`
	// Tokens of a prompt, whose KV cache is handed over.
	Tokens int `ff:"tokens,min=1,max=1000000000"`
	// Format of the KV cache. Default: `precision`.
	KVPrecision string `ff:"kv_precision,one=fp32|bf16|fp16|fp8|int8|fp4"`
	// Bytes of KV cache for each token, for models to which `layers`, `kv_heads` and `head_size` do not apply, such as those with latent
	// attention.
	KVTokenBytes *float64 `ff:"kv_token_bytes,min=1,max=1e12"`
	// Seconds that the prefill of a prompt takes.
	PrefillSeconds *float64 `ff:"prefill_seconds,min=0,least=0.000001,max=1000000"`
	// Largest allowed time until the first token, in seconds: prefill, and the hand-over of the KV cache.
	MaxFirstTokenSeconds *float64 `ff:"max_first_token_seconds,min=0,least=0.000001,max=1000000"`

	// Bytes of a checkpoint. Default: 2 to 14 for each parameter.
	CheckpointBytes *float64 `ff:"checkpoint_bytes,min=1,max=1e18"`
	// Time from one checkpoint to the next, within which a checkpoint must be across.
	CheckpointInterval *time.Duration `ff:"checkpoint_interval"`
}

// WorkloadRef is the name of a workload block.
type WorkloadRef string

// Workload returns the workload block of that name, or nil.
func (f *Fabric) Workload(name WorkloadRef) *Workload {
	for _, w := range f.Workloads {
		if w.Name == string(name) {
			return w
		}
	}
	return nil
}

// Span is what the files say about the distance that a link or network covers, and its work. A lab of virtual machines makes cables that
// are as long.
type Span struct {
	// Length of the fibre between the ends, in km. Light needs about 4.9 µs for each: the round trip cannot be shorter than that.
	DistanceKm float64 `ff:"distance_km,min=0,least=0.001,max=100000"`
	// Expected round-trip time, such as `"20ms"`.
	RTT *time.Duration `ff:"rtt"`
	// How much longer or shorter single round trips are.
	Jitter *time.Duration `ff:"jitter"`
	// Bytes of buffer that the switches at the ends have for a lossless class. To stay lossless they must hold what is under way.
	BufferBytes *float64 `ff:"buffer_bytes,min=1,max=1e15"`
	// Expected loss in each direction, in percent of the packets.
	Loss *float64 `ff:"loss,min=0,least=0.000001,max=99"`
	// What runs over it: `workload.llm`. `role` says which part of the workload it is.
	Workload WorkloadRef `ff:"workload"`
}

// FibreDelay is the time that light needs for a kilometre of fibre, in seconds: the group index 1.468 of standard single-mode fibre at
// 1550 nm (data sheet of Corning SMF-28, a fibre of ITU-T G.652.D) over the speed of light.
const FibreDelay = 1.468 / 299792.458

// OneWay returns what a packet meets in each direction: half of the round trip and of its jitter, and the loss in percent. Without rtt,
// the round trip is that of light.
func (s Span) OneWay() (delay, jitter time.Duration, lossPercent float64) {
	delay = time.Duration(s.DistanceKm * FibreDelay * float64(time.Second))
	if s.RTT != nil {
		delay = *s.RTT / 2
	}
	if s.Jitter != nil {
		jitter = *s.Jitter / 2
	}
	if s.Loss != nil {
		lossPercent = *s.Loss
	}
	return delay, jitter, lossPercent
}
