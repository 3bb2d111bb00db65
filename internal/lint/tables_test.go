package lint

// The tables of the house rules: what each rule knows of this module is here, and how it is
// checked in the file that is named after the rule. A change is argued in its commit.

const (
	gnet = "github.com/panjf2000/gnet"
	unix = "golang.org/x/sys/unix"

	ciliumEBPF = "github.com/cilium/ebpf"
)

// maxLines is where a file must be split.
const maxLines = 500

// purePackages take the time and random numbers as arguments and start no
// goroutine: the same input gives the same output.
var purePackages = []string{"conn", "internal/wire", "transport/iwarp/mpa", "transport/iwarp/ddp", "transport/iwarp/rdmap", "internal/driver"}

// impureFiles are what such packages have clocks and goroutines in.
var impureFiles = []string{"internal/driver/runtime.go"}

// clock is what reads or waits for the time; durations and arithmetic are free.
var clock = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer"}

// vocabulary is what node, daemon, client and API speak of.
var vocabulary = []string{"/rds/datagram", "/rds/config", "/rds/info"}

// bans draw the layers:
//
//	cmd, examples > rds > internal/client, internal/daemon > internal/node > internal/socket
//	internal/node > internal/driver > conn > transport > internal/wire
//
// with rds/datagram, rds/config and rds/info, which all above conn speak of, and with mr and
// xrc beside conn. Test files are free.
var bans = []ban{
	{pkgs: []string{"internal/wire", "internal/invariants"}, imports: []string{"/"},
		why: "the bottom layer knows no other package"},
	{pkgs: []string{"internal/wire"}, imports: []string{"reflect", "net", "os", "unsafe"}, allow: []string{"net/netip"},
		why: "bytes to structs by encoding/binary, nothing else"},
	{pkgs: []string{"internal/lockorder"}, imports: []string{"/"}, allow: []string{"/docs"},
		why: "locks know nothing of who takes them"},
	{pkgs: []string{"internal/netlink"}, imports: []string{"/"},
		why: "the kernel's TCP sockets and interfaces owe nothing to our stack"},
	{pkgs: []string{"internal/buf"}, imports: []string{"/"}, allow: []string{"/internal/invariants"},
		why: "buffers know nothing of what they carry"},
	{pkgs: []string{"transport"}, only: true, imports: []string{"/", "net", "os", gnet},
		allow: []string{"/internal/wire", "/internal/buf", "/internal/invariants", "net/netip"}, deep: true,
		why: "the interface stands above the wire format and below everything that uses or implements it"},
	{pkgs: []string{"transport/"}, imports: []string{"/conn", "/rds", "/internal/node", "/internal/daemon", "/internal/client"},
		why: "a transport serves whoever implements its handler"},
	{pkgs: []string{"internal/gnetloop"}, imports: []string{"/"}, allow: []string{"/transport", "/internal/buf", "/internal/invariants", "/internal/lockorder"},
		why: "moving bytes needs nobody who knows what they mean"},
	{pkgs: []string{"internal/gnetloop"}, imports: []string{"/transport/"},
		why: "the transports stand on it"},
	{pkgs: []string{""}, except: []string{"internal/memnet", "internal/rdstest"}, imports: []string{"/internal/memnet"},
		why: "sockets in memory are for tests"},
	{pkgs: []string{"transport/iwarp"}, imports: []string{"/xrc"},
		why: "XRC runs on iWARP, not the other way round"},
	{pkgs: []string{"xrc/objects"}, imports: []string{"/transport"}, allow: []string{"/transport/iwarp"},
		why: "the objects are those of iWARP, and who owns them; transport/xrc has the connections"},
	{pkgs: []string{"conn"}, imports: []string{gnet, "net", "os", "unsafe", "reflect", unix}, allow: []string{"net/netip"}, deep: true,
		why: "the core does no I/O: now and events in, actions out"},
	{pkgs: []string{"conn"}, imports: []string{"syscall", "context"},
		why: "the core does no I/O: now and events in, actions out"},
	{pkgs: []string{"conn"}, imports: []string{"/transport/", "/rds", "/internal/node", "/internal/daemon", "/internal/client", "/xrc", "/mr"}, deep: true,
		why: "the core knows the transport's interface, never an implementation, and nothing above itself"},
	{pkgs: []string{"internal/driver"}, imports: []string{"/transport/", "/rds", "/mr", "/xrc", gnet, "net", "os", unix}, allow: []string{"net/netip"},
		why: "the driver knows its owner, links and clock by their interfaces: the simulator brings its own"},
	{pkgs: []string{"mr"}, imports: []string{"/conn", "/transport", "/rds", "/xrc", "/internal/node", "/internal/daemon", "/internal/client", gnet}, deep: true,
		why: "memory regions outlive connections and know none"},
	{pkgs: []string{"xrc/objects"}, imports: []string{"/conn", "/rds", "/internal/node", "/internal/daemon", "/internal/client"}, deep: true,
		why: "XRC does not know RDS"},
	{pkgs: []string{"xrc"}, only: true, imports: []string{"/"},
		allow: []string{"/internal/ipc", "/internal/socket", "/internal/work", "/mr", "/rds/datagram", "/transport/iwarp", "/xrc/objects"},
		why:   "objects need the calls of who has them and the memory that both sides share"},
	{pkgs: []string{"rds/datagram"}, imports: []string{"/"}, allow: []string{"/conn", "/internal/buf", "/internal/errno"},
		why: "messages and errors know nothing that sends them"},
	{pkgs: []string{"rds/config", "rds/info"}, imports: []string{"/rds", "/internal"},
		allow: []string{"/rds/datagram", "/internal/address", "/internal/ipc", "/internal/wire"},
		why:   "settings and reports know nothing that has them"},
	{pkgs: []string{"internal/errno"}, imports: []string{"/"},
		why: "an error knows no other package"},
	{pkgs: []string{"internal/address"}, imports: []string{"/"}, allow: []string{"/internal/resolve", "/rds/datagram"},
		why: "addresses as text need nothing that has them"},
	{pkgs: []string{"internal/socket"}, imports: []string{"/"},
		allow: append([]string{"/conn", "/internal/address", "/internal/buf", "/internal/errno", "/internal/fifo", "/internal/ipc", "/internal/lockorder"}, vocabulary...),
		why:   "what all sockets have in common knows none of their providers"},
	{pkgs: []string{"internal/choice"}, imports: []string{"/"}, allow: []string{"/transport", "/internal/lockorder"},
		why: "the dial policy decides between two transports by what their dials end with"},
	{pkgs: []string{"internal/node"}, imports: []string{"/rds", "/internal/daemon", "/internal/client", "/internal/kernel"}, allow: vocabulary, deep: true,
		why: "the node knows who has its sockets by Owner, and its service by Server"},
	{pkgs: []string{"internal/daemon"}, imports: []string{"/rds", "/internal/client", "/internal/kernel"}, allow: vocabulary, deep: true,
		why: "the daemon adds applications to a node, and they are other processes"},
	{pkgs: []string{"internal/client"}, imports: []string{"/rds", "/internal/node", "/internal/daemon", "/internal/kernel", "/internal/driver", "/internal/gnetloop"},
		allow: vocabulary, deep: false,
		why: "an application shares memory with the daemon, not code of its own"},
	{pkgs: []string{"internal/kernel"}, imports: []string{"/rds", "/internal/node", "/internal/daemon", "/internal/client", "/internal/driver", "/internal/ipc"},
		allow: vocabulary,
		why:   "the kernel's sockets need none of our stack"},
	{pkgs: []string{"rds"}, only: true, imports: []string{"/conn", "/transport", "/mr", "/xrc", "/internal/driver", "/internal/gnetloop", "/internal/buf"},
		allow: []string{"/xrc"}, // Node.XRC and Client.XRC return a session
		why:   "the API is thin: what it does is done below"},
	{pkgs: []string{"internal/afrds"}, imports: []string{"/conn", "/transport", "/rds", "/internal/node", "/internal/daemon", "/internal/client"},
		why: "the kernel's sockets owe nothing to our stack; tests compare the two"},
	{pkgs: []string{""}, except: []string{"cmd", "examples", "rds", "internal", "test", "xrc"}, imports: []string{"/rds"},
		why: "the socket API is for programs"},
	{pkgs: []string{""}, except: []string{"cmd"}, imports: []string{"/cmd"},
		why: "commands are flag parsing and wiring, not a library"},
	{pkgs: []string{""}, except: []string{"examples"}, imports: []string{"/examples"},
		why: "examples are read, not imported"},
	{pkgs: []string{""}, except: []string{"internal/gnetloop"}, imports: []string{gnet},
		why: "the event loop is a detail of the package that drives it for the socket transports"},
	{pkgs: []string{""}, except: []string{"cmd", "ebpf", "internal", "test"}, imports: []string{"/ebpf"}, deep: true,
		why: "a node works without the kernel's help; commands offer it"},
	{pkgs: []string{""}, except: []string{"ebpf"}, imports: []string{ciliumEBPF},
		why: "package ebpf is the one place that knows the loader"},
	{pkgs: []string{"ebpf"}, imports: []string{"/"}, allow: []string{"/ebpf", "/internal/invariants", "/internal/netlink"},
		why: "programs in the kernel know TCP and ports, not our stack"},
	{pkgs: []string{""}, except: systemPackages, imports: []string{unix, "unsafe"},
		why: "system calls stay in the packages listed for them"},
}

// systemPackages may use golang.org/x/sys/unix, unsafe and syscall.Syscall.
// An addition is argued in its commit.
var systemPackages = []string{
	"internal/gnetloop",  // socket options, SIOCOUTQ, vectored reads and writes
	"internal/afrds",     // AF_RDS has no wrapper in package net
	"internal/ipc",       // shared memory and descriptors between rdsd and applications
	"internal/statefile", // a mapped file that outlives its process
	"internal/netlink",   // netlink has no wrapper in package net
	"internal/netlab",    // namespaces and mounts of tests
	"internal/node",      // words of operations as bytes
	"internal/daemon",    // places in a session's memory
	"internal/client",    // places in a session's memory
	"ebpf",
	"mr",             // atomic operations on words of the caller's memory
	"internal/bench", // TCP_INFO of connections that may be cut
	"xrc/objects",    // how a descriptor is open, which package syscall has no call for
	"cmd",
	"test", // interop harness
}

// helpers is the package whose functions tests of all packages share.
const (
	helpers = "internal/rdstest"
	common  = "rdstest." // what names of that package begin with
)

// bubbles are the calls whose arguments run in virtual time.
var bubbles = []string{"synctest.Test", "bubble", "bubbleOn", "rdstest.Bubble", "memnet.Bubble", "transporttest.Bubble", "eachMode", "bothRoles", "inBubble", "opBubble", "eachWay"}

// worlds are what tests of the pure stage do not use: the world outside of the test's process at
// all, and the clock outside of bubbles. Names are patterns of path.Match.
var worlds = []struct {
	imported string
	names    []string
	clock    bool
}{
	{"time", clock, true},
	{"context", []string{"WithTimeout*", "WithDeadline*"}, true},
	{"net", []string{"Listen", "Listen[A-Z]*", "Dial*", "File[A-Z]*"}, false},
	{"net/http", []string{"Get", "Post", "ListenAndServe*", "Serve*", "DefaultClient"}, false},
	{"net/http/httptest", []string{"NewServer", "NewUnstartedServer", "NewTLSServer"}, false},
	{"os/exec", []string{"*"}, false},
	{"os", []string{"StartProcess", "FindProcess"}, false},
	{"/internal/netlab", []string{"*"}, false},
	{"/internal/gnetloop", []string{"New", "NewLoops"}, false},
	{"/internal/cli/clitest", []string{"*"}, false},     // builds commands and starts them
	{"/internal/client", []string{"New", "Dial"}, true}, // in a bubble an application attaches within the process
	{"/internal/rdstest", []string{"NewLab"}, false},
}

// mostTestLines is how long a function of tests may be, its tables apart.
const mostTestLines = 80
