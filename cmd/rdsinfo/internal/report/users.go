package report

// users shows what the applications of each user have of the user's shares.
func users(v *View) table {
	t := table{title: "Users", columns: []column{
		{"UID", 10}, {"Apps", 5}, {"Socks", 6}, {"Addrs", 5}, {"Peers", 6}, {"Memory", 14}, {"Over", 4}}}
	for _, u := range v.Info.Users {
		over := "-"
		if u.OverMemory {
			over = "yes"
		}
		t.add(u.UID, u.Sessions, u.Sockets, u.Addresses, u.Peers, u.Memory, over)
	}
	return t
}
