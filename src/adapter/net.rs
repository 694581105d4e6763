//! Real sockets: TCP with rustls over it, trusting the web's root certificates.
//!
//! Only HTTP/1.1 is offered in the handshake: it is what the engine speaks.
//! **Source:** dependencies.md ("TLS out").

use crate::port::{Listener, LocalFuture, Net, Stream};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream, lookup_host};
use tokio_rustls::TlsConnector;

pub struct TokioNet {
    tls: Arc<ClientConfig>,
}

impl Default for TokioNet {
    fn default() -> TokioNet {
        TokioNet::trusting(RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() })
    }
}

impl TokioNet {
    /// Trusts these certificate authorities instead of the web's.
    pub fn trusting(roots: RootCertStore) -> TokioNet {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("ring speaks every version that rustls thinks safe")
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        TokioNet { tls: Arc::new(config) }
    }
}

impl Net for TokioNet {
    fn connect(&self, host: &str, port: u16, tls: bool) -> LocalFuture<'static, io::Result<Box<dyn Stream>>> {
        let host = host.to_owned();
        let tls = tls.then(|| TlsConnector::from(self.tls.clone()));
        Box::pin(async move {
            let stream = connect_tcp(&host, port).await?;
            let Some(tls) = tls else { return Ok(Box::new(stream) as Box<dyn Stream>) };
            let name =
                ServerName::try_from(host).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
            Ok(Box::new(tls.connect(name, stream).await?) as Box<dyn Stream>)
        })
    }

    fn listen(&self, addr: &str) -> LocalFuture<'static, io::Result<Rc<dyn Listener>>> {
        let addr = addr.to_owned();
        Box::pin(async move { Ok(Rc::new(TokioListener(Rc::new(TcpListener::bind(addr).await?))) as Rc<dyn Listener>) })
    }
}

/// Tries the name's addresses one after the other.
///
/// **Errors:** `NotFound` if the name has none; else that of the last address tried.
async fn connect_tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    // The resolver's own errors have no kind of their own.
    let addresses =
        lookup_host((host, port)).await.map_err(|error| io::Error::new(io::ErrorKind::NotFound, error.to_string()))?;
    let mut last = io::Error::new(io::ErrorKind::NotFound, format!("{host} has no address"));
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

struct TokioListener(Rc<TcpListener>);

impl Listener for TokioListener {
    fn accept(&self) -> LocalFuture<'static, io::Result<Box<dyn Stream>>> {
        let listener = self.0.clone();
        Box::pin(async move {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        })
    }

    fn local_addr(&self) -> io::Result<String> {
        Ok(self.0.local_addr()?.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    fn block_on<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(work)
    }

    fn port_of(listener: &Rc<dyn Listener>) -> u16 {
        let addr = listener.local_addr().expect("it is bound");
        addr.rsplit_once(':').expect("address:port").1.parse().expect("a port")
    }

    #[test]
    fn bytes_go_both_ways() {
        block_on(async {
            let net = TokioNet::default();
            let listener = net.listen("127.0.0.1:0").await.expect("loopback can be listened on");
            let (client, server) = tokio::join!(net.connect("127.0.0.1", port_of(&listener), false), listener.accept());
            let (mut client, mut server) = (client.expect("connected"), server.expect("accepted"));
            client.write_all(b"ping").await.expect("written");
            let mut got = [0; 4];
            server.read_exact(&mut got).await.expect("read");
            assert_eq!(&got, b"ping");
            drop(server);
            assert_eq!(client.read(&mut got).await.expect("a clean end"), 0);
        });
    }

    #[test]
    fn a_port_where_nobody_listens_refuses() {
        block_on(async {
            let net = TokioNet::default();
            let listener = net.listen("127.0.0.1:0").await.expect("loopback can be listened on");
            let port = port_of(&listener);
            drop(listener);
            let error = net.connect("127.0.0.1", port, false).await.err().expect("nobody listens");
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        });
    }

    #[test]
    fn a_peer_that_speaks_no_tls_is_an_invalid_one() {
        block_on(async {
            let net = TokioNet::default();
            let listener = net.listen("127.0.0.1:0").await.expect("loopback can be listened on");
            let serve = async {
                let mut peer = listener.accept().await.expect("accepted");
                peer.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.expect("written");
                let mut rest = Vec::new();
                let _ = peer.read_to_end(&mut rest).await;
            };
            let (result, ()) = tokio::join!(net.connect("127.0.0.1", port_of(&listener), true), serve);
            assert_eq!(result.err().expect("no TLS there").kind(), io::ErrorKind::InvalidData);
        });
    }

    /// A TLS server for `localhost`, and the certificate it is to be trusted by.
    fn tls_server() -> (tokio_rustls::TlsAcceptor, rustls::pki_types::CertificateDer<'static>) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let certificate = made.cert.der().clone();
        let key = rustls::pki_types::PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the same as the client's")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .expect("the key belongs to the certificate");
        (Arc::new(config).into(), certificate)
    }

    #[test]
    fn an_encrypted_stream_is_opened_only_with_a_host_that_is_trusted_under_its_name() {
        block_on(async {
            let (acceptor, certificate) = tls_server();
            let mut roots = RootCertStore::empty();
            roots.add(certificate).expect("a root");
            let trusting = TokioNet::trusting(roots);
            let stranger = TokioNet::default();
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback can be listened on");
            let port = listener.local_addr().expect("it is bound").port();
            let serve = async {
                for _ in 0..3 {
                    let (stream, _) = listener.accept().await.expect("accepted");
                    if let Ok(mut stream) = acceptor.accept(stream).await {
                        stream.write_all(b"secret").await.expect("written");
                        stream.shutdown().await.expect("closed");
                    }
                }
            };
            let dial = async {
                let mut stream = trusting.connect("localhost", port, true).await.expect("trusted");
                let mut got = String::new();
                stream.read_to_string(&mut got).await.expect("read");
                assert_eq!(got, "secret");
                let error =
                    trusting.connect("127.0.0.1", port, true).await.err().expect("the certificate names another");
                assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
                let error = stranger.connect("localhost", port, true).await.err().expect("nobody vouches for it");
                assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
            };
            tokio::join!(serve, dial);
        });
    }
}
