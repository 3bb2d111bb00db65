package conformance

import "github.com/rds-go/rds/rds"

// Difference is something a provider does differently.
type Difference struct {
	Case     string
	Provider string
	What     string // description, as in docs/PROTOCOL.md
	Skip     bool   // the case cannot be run
}

// Differences is the table "Differences between providers" of
// docs/PROTOCOL.md, in its order.
func Differences() []Difference { return differences }

var differences = []Difference{
	{"bind/after the provider's close", rds.ProviderKernel, "Close of the provider does nothing: sockets are closed one by one", true},
	{"connect/other family", rds.ProviderKernel, "IPv6 from IPv4 is accepted; the send is refused", false},
	{"send/ping", rds.ProviderKernel, "a ping of an own address is not answered, of other hosts it is", true},
	{"send/type of service", rds.ProviderKernel, "over TCP the value becomes 0, which may be set again", false},
	{"buffer/full", rds.ProviderKernel, "a host that is down may fill the whole buffer: then nothing can be sent to others, and POLLOUT is down", false},
	{"buffer/batch stops where it is full", rds.ProviderKernel, "the same", false},
	{"buffer/a larger one wakes a blocked send", rds.ProviderKernel, "nobody is woken; the next event does it", true},
	{"cancel/multicast", rds.ProviderKernel, "accepted, and nothing happens", false},
	{"cancel/everywhere", rds.ProviderKernel, "all is EINVAL", false},
	{"congestion/a larger buffer ends it", rds.ProviderKernel, "only reading ends congestion", false},
	{"congestion/empty messages count too", rds.ProviderKernel, "only payload counts: empty messages are not bounded", true},
	{"congestion/polled", rds.ProviderKernel, "Go's own poller gets the news before Poll does: use the congestion monitor", true},
	{"fate/delivered", rds.ProviderKernel, "no fates: send with Notify is EOPNOTSUPP", true},
	{"fate/canceled", rds.ProviderKernel, "no fates", true},
	{"fate/comes before data", rds.ProviderKernel, "no fates", true},
	{"fate/of all that fail", rds.ProviderKernel, "RDS_RECVERR is about RDMA only", false},
	{"fate/refused", rds.ProviderKernel, "no fates", true},
	{"fate/expired", rds.ProviderKernel, "no time limits: a send with one is EOPNOTSUPP", false},
	{"fate/too many unread", rds.ProviderKernel, "no fates", true},
	{"transport/decides for a host that is unknown", rds.ProviderKernel, "TCP is what every socket has; XRC is ENOPROTOOPT", false},
	{"transport/of hosts that are known", rds.ProviderKernel, "all are served by TCP", false},
	{"close/reports what it dropped", rds.ProviderKernel, "without linger nothing is reported", false},
	{"close/frees the port while it lingers", rds.ProviderKernel, "the port is taken until the linger ends", true},
}

func difference(name, provider string) *Difference {
	for i := range differences {
		if d := &differences[i]; d.Case == name && d.Provider == provider {
			return d
		}
	}
	return nil
}
