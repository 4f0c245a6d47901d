//! Lists page by page, each page with leave of its own.

use aws_smithy_async::future::pagination_stream::PaginationStream;

use super::{Call, CloudMap, Error};

impl CloudMap {
    /// All pages of a list; `token` gives the token that a page ends with. The SDK's paginators stop without an
    /// error where a token repeats itself; such a list is not whole.
    pub(super) async fn pages<Page, Problem>(
        &self,
        call: Call,
        mut pages: PaginationStream<Result<Page, Problem>>,
        token: impl Fn(&Page) -> Option<&str>,
        failed: impl Fn(&Problem) -> Error,
    ) -> Result<Vec<Page>, Error> {
        let mut all: Vec<Page> = Vec::new();
        loop {
            let _permit = self.permit(call).await;
            match pages.next().await {
                Some(page) => all.push(page.map_err(|problem| failed(&problem))?),
                None => break,
            }
            let last = all.last().and_then(&token);
            if last.is_none_or(str::is_empty) {
                return Ok(all);
            }
        }
        Err(Error::input(
            format!("make a whole list with {call:?}"),
            &"the list repeats itself and does not end",
        ))
    }
}
