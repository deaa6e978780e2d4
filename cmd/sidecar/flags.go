package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"sidecar/config"
)

// processSettings are what flags and the environment say: the path of the
// configuration file and the process scalars. Flag beats environment beats
// file.
type processSettings struct{ v *viper.Viper }

// processFlags adds --config and a flag for every process scalar, such as
// --log-level for log.level, which SIDECAR_LOG_LEVEL sets too.
func processFlags(flags *pflag.FlagSet) *processSettings {
	v := viper.New()
	v.SetEnvPrefix("SIDECAR")
	v.SetEnvKeyReplacer(strings.NewReplacer(".", "_"))
	v.AutomaticEnv()
	flags.StringP("config", "c", "sidecar.yaml", "configuration file")
	bind(v, "config", flags.Lookup("config"))
	_ = flags.SetAnnotation("config", cobra.BashCompFilenameExt, []string{"yaml", "yml"}) // only for an unknown flag
	for _, k := range config.ProcessKeys() {
		name := strings.NewReplacer(".", "-", "_", "-").Replace(k.Name)
		flags.String(name, "", k.Usage)
		f := flags.Lookup(name)
		if k.Default != "" {
			f.Usage += " (default " + k.Default + ")"
		}
		if k.Bool {
			f.NoOptDefVal = "true"
		}
		bind(v, k.Name, f)
	}
	return &processSettings{v}
}

func bind(v *viper.Viper, key string, f *pflag.Flag) {
	if err := v.BindPFlag(key, f); err != nil {
		panic(err) // only for a nil flag
	}
}

// path returns the configuration file's path.
func (s *processSettings) path() string { return s.v.GetString("config") }

// set returns a scalar that a flag or the environment sets.
func (s *processSettings) set(key string) (string, bool) {
	if !s.v.IsSet(key) {
		return "", false
	}
	return s.v.GetString(key), true
}

// source returns the configuration file, to be read under these settings.
func (s *processSettings) source() *config.Source {
	return config.NewSource(s.path(), config.Process{OpenFiles: openFiles(), Set: s.set})
}
