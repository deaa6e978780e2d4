package admin

// reloadStatus tells of the last reload.
type reloadStatus struct {
	At     timestamp `json:"at"`
	Error  string    `json:"error"` // why it was not applied, empty if it was
	Faults []Fault   `json:"faults"`
}

// lastReload returns how the last reload went.
func (a *admin) lastReload() reloadStatus {
	at, err := a.Statistics.LastReload()
	s := reloadStatus{At: timestamp(at), Faults: []Fault{}}
	if err != nil {
		s.Error = err.Error()
		s.Faults = append(s.Faults, a.Faults(err)...)
	}
	return s
}
