package peers

import (
	"fmt"
	"os"
	"strings"
)

// Nginx is nginx.
//
// Refuse and Static: after a failure the upstream is out of rotation, and
// error_page answers. It is named twice, since nginx never takes out an only server.
// Stale: proxy_cache with use_stale, refreshed in the background: while the
// upstream fails, nginx goes on asking it. Queue: the free nginx has none.
type Nginx struct{}

// Name returns "nginx".
func (Nginx) Name() string { return "nginx" }

// Version asks `nginx -v`.
func (Nginx) Version() (string, error) { return version("nginx", "-v") }

const nginxHead = `
%[2]sworker_processes auto;
daemon off;
pid %[1]s/nginx.pid;
error_log %[1]s/error.log crit;
events { worker_connections 8192; }
http {
  access_log off;
  keepalive_requests 1000000000;
  client_body_temp_path %[1]s/body;
  proxy_temp_path %[1]s/temp;
  fastcgi_temp_path %[1]s/fastcgi;
  uwsgi_temp_path %[1]s/uwsgi;
  scgi_temp_path %[1]s/scgi;
  proxy_max_temp_file_size 0;
  client_body_buffer_size 64k;
  proxy_http_version 1.1;
  proxy_set_header Connection "";
  proxy_cache_path %[1]s/cache keys_zone=copies:16m max_size=64m inactive=1h;
`

// nginxPolicy is what a location holds beside proxy_pass.
var nginxPolicy = map[Policy]string{
	Proxy: "",
	Refuse: nginxOpens + `
      error_page 500 502 504 =503 @refused;`,
	Static: nginxOpens + `
      error_page 500 502 504 =200 @static;`,
	Stale: nginxCache,
	Guard: `
      proxy_read_timeout ` + guardSecond + `;`,
}

const nginxOpens = `
      proxy_next_upstream error timeout http_500;
      proxy_intercept_errors on;`

const nginxCache = `
      proxy_cache copies;
      proxy_cache_valid 200 1s;
      proxy_cache_use_stale error timeout updating http_500;
      proxy_cache_background_update on;
      proxy_ignore_headers Cache-Control Expires;`

// Command writes nginx.conf.
func (Nginx) Command(s Setup) ([]string, error) {
	location, can := nginxPolicy[s.Policy]
	if !can {
		return nil, ErrCannot
	}
	user := ""
	if os.Geteuid() == 0 {
		user = "user root;\n" // the folder is readable for its owner alone
	}
	var file strings.Builder
	fmt.Fprintf(&file, nginxHead, s.Dir, user)
	for i, r := range s.Routes {
		server := fmt.Sprintf("server %s", r.Upstream)
		means := location
		if r.Keep {
			means += nginxCache
		}
		switch s.Policy {
		case Refuse, Static:
			server = fmt.Sprintf("%[1]s max_fails=1 fail_timeout=10m;\n    %[1]s max_fails=1 fail_timeout=10m", server)
		case Guard:
			server = fmt.Sprintf("%s max_conns=%d", server, guardLimit)
		}
		fmt.Fprintf(&file, `
  upstream u%[1]d {
    zone u%[1]d 64k;
    %[2]s;
    keepalive %[3]d;
    keepalive_requests 1000000000;
  }
  server {
    listen %[4]s backlog=4096;
    location / {
      proxy_pass http://u%[1]d;%[5]s
    }
    location @refused { return 503; }
    location @static { default_type application/octet-stream; return 200 %[6]s; }
  }
`, i, server, keptIdle, r.Listen, means, staticBody)
	}
	file.WriteString("}\n")
	path, err := s.write("nginx.conf", file.String())
	return []string{"nginx", "-e", s.Dir + "/error.log", "-p", s.Dir, "-c", path}, err
}
