package client

// The locks of structs that have several, for lockorder.
type (
	attachmentSendMu  *attachment
	attachmentCallMu  *attachment
	attachmentPeerMu  *attachment
	attachmentSockMu  *attachment
	clientReattaching *Client
	clientMu          *Client
)
