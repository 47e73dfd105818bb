//! `portForward`: pairs of streams, each a connection to a port of this machine.

use std::collections::HashMap;

use binnacle_streams::spdy::{Frame, Headers, Reader, Writer, header};
use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::command::write_frames;

pub(super) async fn serve(connection: impl AsyncRead + AsyncWrite + Send + 'static) {
    let (reader, writer) = split(connection);
    let mut reader = Reader::new(reader);
    let frames = write_frames(Writer::new(writer));
    let mut errors: HashMap<String, u32> = HashMap::new();
    let mut sending: HashMap<u32, mpsc::Sender<Bytes>> = HashMap::new();
    while let Ok(Some(frame)) = reader.next().await {
        match frame {
            Frame::Open { stream, headers, .. } => {
                let _ = frames.send(Frame::Reply { stream, fin: false }).await;
                let request = header(&headers, "requestid").unwrap().to_owned();
                // The error stream comes first.
                if header(&headers, "streamtype") == Some("error") {
                    errors.insert(request, stream);
                } else {
                    let (sender, data) = mpsc::channel(8);
                    sending.insert(stream, sender);
                    let error = errors.remove(&request).unwrap();
                    tokio::spawn(connect(headers, stream, error, data, frames.clone()));
                }
            }
            Frame::Data { stream, fin, data } => {
                if let Some(sender) = sending.get(&stream) {
                    let _ = sender.send(data).await;
                }
                if fin {
                    sending.remove(&stream);
                }
            }
            Frame::Reset { stream, .. } => drop(sending.remove(&stream)),
            Frame::Ping(id) => drop(frames.send(Frame::Ping(id)).await),
            Frame::GoAway => return,
            _ => {}
        }
    }
}

async fn connect(
    headers: Headers,
    stream: u32,
    error: u32,
    mut data: mpsc::Receiver<Bytes>,
    frames: mpsc::Sender<Frame>,
) {
    let port: u16 = header(&headers, "port").unwrap().parse().unwrap();
    let why = match TcpStream::connect(("127.0.0.1", port)).await {
        Err(error) => format!("failed to connect to port {port}: {error}"),
        Ok(tcp) => {
            let (mut from, mut to) = tcp.into_split();
            let sent = async {
                while let Some(data) = data.recv().await {
                    let _ = to.write_all(&data).await;
                }
                let _ = to.shutdown().await;
            };
            let received = async {
                let mut buffer = vec![0; 16 * 1024];
                while let Ok(read @ 1..) = from.read(&mut buffer).await {
                    let data = Bytes::copy_from_slice(&buffer[..read]);
                    let _ = frames.send(Frame::Data { stream, fin: false, data }).await;
                }
            };
            tokio::join!(sent, received);
            String::new()
        }
    };
    let _ = frames.send(Frame::Data { stream, fin: true, data: Bytes::new() }).await;
    let _ = frames.send(Frame::Data { stream: error, fin: true, data: why.into() }).await;
}
