package node

// The locks of structs that have several, for lockorder.
type (
	nodeAdmissionMu *Node
	nodeMu          *Node
	nodeOpened      *Node
)
